import ForgeFileSystem
import SystemPackage

/// Renders a sequence of calls as a Swift test that expects the outcomes on disk from the in-memory file system.
struct FuzzTestText {
    let name: String
    let operations: [FuzzOperation]
    let difference: FuzzDifference

    var text: String {
        var lines = [
            "@Test(\"\(name)\")", "func agrees() throws {", "    var fileSystem = InMemoryFileSystem()",
            "    let tree = fileSystem",
            "    var slots = [Descriptor](repeating: Descriptor(rawValue: 1_999_999), count: \(FuzzOperation.slotCount))",
            "    var mappings = [FileMapping?](repeating: nil, count: \(FuzzOperation.mappingCount))",
            "    func errno(_ call: () throws -> Void) throws -> Errno? {",
            "        do { try call() } catch let error as FileSystemError { return error.errno }",
            "        return nil", "    }",
        ]
        for (operation, outcome) in zip(operations, difference.outcomes) {
            let call = FuzzCallText(operation).text
            switch outcome {
            case .failed(let errno):
                lines.append(
                    "    #expect(try errno { \(call) } == Errno(rawValue: \(errno.rawValue)))  // \(errno.name)")
            case .done, .skipped: lines.append("    \(call)")
            default: lines.append("    \(call)  // \(outcome)")
            }
        }
        lines += ["    // The disk:   \(difference.disk)", "    // In memory:  \(difference.memory)", "}"]
        return lines.joined(separator: "\n")
    }
}

/// Renders one call as Swift source.
private struct FuzzCallText {
    let text: String

    init(_ operation: FuzzOperation) {
        text =
            switch operation {
            case .open(let slot, let place, let mode, let options, let permissions, let resolution):
                "slots[\(slot)] = try fileSystem.open(\(Self.place(place)), .init(rawValue: \(mode.rawValue)), "
                    + "options: .init(rawValue: 0o\(String(options.rawValue, radix: 8))), "
                    + "permissions: \(Self.mode(permissions)), resolution: .init(rawValue: \(resolution.rawValue)))"
            case .close(let slot): "try fileSystem.close(slots[\(slot)])"
            case .duplicate(let slot, let into): "slots[\(into)] = try fileSystem.duplicate(slots[\(slot)])"
            case .read(let slot, let count, let offset):
                "_ = try fileSystem.withBuffer(\(count)) { try fileSystem.read(slots[\(slot)], into: $0, "
                    + "at: \(Self.offset(offset))) }"
            case .write(let slot, let count, let byte, let offset):
                "_ = try [UInt8](repeating: \(byte), count: \(count)).withUnsafeBytes { "
                    + "try fileSystem.write(slots[\(slot)], from: $0, at: \(Self.offset(offset))) }"
            case .seek(let slot, let offset, let origin):
                "_ = try fileSystem.seek(slots[\(slot)], to: \(offset), from: .init(rawValue: \(origin.rawValue)))"
            case .truncate(let target, let size): "try fileSystem.truncate(\(Self.target(target)), to: \(size))"
            case .allocate(let slot, let offset, let length):
                "try fileSystem.allocate(slots[\(slot)], at: \(offset), length: \(length))"
            case .synchronize(let slot, let level): "try fileSystem.synchronize(slots[\(slot)], .\(level))"
            case .map(let slot, let offset, let count, let into):
                "mappings[\(into)] = try fileSystem.map(slots[\(slot)], at: \(offset), count: \(count))"
            case .store(let mapping, let count, let byte, let offset):
                "[UInt8](repeating: \(byte), count: \(count)).withUnsafeBytes { "
                    + "mappings[\(mapping)]?.store($0, at: \(offset)) }"
            case .load(let mapping, let count, let offset):
                "_ = mappings[\(mapping)]?.withUnsafeBytes(\(offset)..<\(offset + count)) { Array($0) }"
            case .writeBack(let mapping): "try mappings[\(mapping)]?.writeBack()"
            case .unmap(let mapping): "mappings[\(mapping)] = nil"
            case .status(let target): "_ = try fileSystem.status(of: \(Self.target(target)))"
            case .setPermissions(let target, let permissions):
                "try fileSystem.setPermissions(\(Self.mode(permissions)), of: \(Self.target(target)))"
            case .setOwner(let target, let owner, let group):
                "try fileSystem.setOwner(\(owner.map { "UserID(\($0.rawValue))" } ?? "nil"), "
                    + "group: \(group.map { "GroupID(\($0.rawValue))" } ?? "nil"), of: \(Self.target(target)))"
            case .setTimes(let target, let accessed, let modified):
                "try fileSystem.setTimes(accessed: \(Self.time(accessed)), modified: \(Self.time(modified)), "
                    + "of: \(Self.target(target)))"
            case .createDirectory(let place, let permissions):
                "try fileSystem.createDirectory(\(Self.place(place)), permissions: \(Self.mode(permissions)))"
            case .createNode(let place, let type, let permissions):
                "try fileSystem.createNode(\(Self.place(place)), type: .init(rawValue: "
                    + "0o\(String(type.rawValue, radix: 8))), permissions: \(Self.mode(permissions)), deviceNumber: 0)"
            case .createSymbolicLink(let place, let target):
                "try fileSystem.createSymbolicLink(\(Self.place(place)), to: \(Self.path(target)))"
            case .readSymbolicLink(let place): "_ = try fileSystem.readSymbolicLink(\(Self.place(place)))"
            case .link(let place, let new): "try fileSystem.link(\(Self.place(place)), to: \(Self.place(new)))"
            case .rename(let place, let new, let mode):
                "try fileSystem.rename(\(Self.place(place)), to: \(Self.place(new)), .\(mode))"
            case .unlink(let place): "try fileSystem.unlink(\(Self.place(place)))"
            case .removeDirectory(let place): "try fileSystem.removeDirectory(\(Self.place(place)))"
            case .list(let slot): "_ = try fileSystem.entries(of: slots[\(slot)])"
            case .lock(let slot, let mode): "try fileSystem.lock(slots[\(slot)], .\(mode), waiting: false)"
            case .enter(let path): "try fileSystem.changeDirectory(\(Self.path(path)))"
            case .become(let identity):
                "fileSystem = tree.process(user: UserID(\(identity.user.rawValue)), "
                    + "group: GroupID(\(identity.group.rawValue)), "
                    + "groups: [\(identity.groups.map { "GroupID(\($0.rawValue))" }.joined(separator: ", "))], "
                    + "umask: \(Self.mode(identity.umask)))"
            }
    }

    private static func place(_ place: FuzzOperation.Place) -> String {
        "\(path(place.path)), at: \(place.base.map { "slots[\($0)]" } ?? ".workingDirectory")"
    }

    private static func target(_ target: FuzzOperation.Target) -> String {
        switch target {
        case .slot(let slot): ".descriptor(slots[\(slot)])"
        case .place(let place, let followsLinks):
            ".path(\(self.place(place)), followsSymbolicLinks: \(followsLinks))"
        }
    }

    /// A string literal, or an array of bytes where a literal would be unreadable.
    private static func path(_ path: POSIXPath) -> String {
        let isPlain = path.bytes.allSatisfy { (0x20..<0x7F).contains($0) && $0 != 0x22 && $0 != 0x5C }
        return isPlain ? "\"\(path)\"" : "POSIXPath(\(Array(path.bytes)))"
    }

    private static func mode(_ permissions: FilePermissions) -> String {
        ".init(rawValue: 0o\(String(permissions.rawValue, radix: 8)))"
    }

    private static func offset(_ offset: Int64?) -> String { offset.map(String.init) ?? "nil" }

    private static func time(_ time: FileTime?) -> String {
        time.map { "FileTime(seconds: \($0.seconds), nanoseconds: \($0.nanoseconds))" } ?? "nil"
    }
}
