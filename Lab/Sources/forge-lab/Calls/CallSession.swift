import ForgeFileSystem
import SystemPackage

/// One run of the helper: its identity, open descriptors and output.
struct CallSession {
    private(set) var response = CallResponse()
    var descriptors: [Descriptor] = []

    /// An invalid command line, as opposed to a failing call.
    struct Misuse: Error { var description: String }

    private struct Identity {
        var user: UserID?
        var groups: [GroupID] = [GroupID(rawValue: 0)]
        var umask = FilePermissions()
    }

    /// Runs a command line as a process of its own, until a call fails.
    mutating func run(_ request: CallRequest, on tree: InMemoryFileSystem) -> CallResponse {
        do {
            var words = request.words[...]
            let identity = try identity(&words)
            let fileSystem = tree.process(
                user: identity.user, group: identity.groups.first, groups: identity.groups, umask: identity.umask)
            if request.directory != 0 { try fileSystem.changeDirectory(toInode: request.directory) }
            guard !words.isEmpty else { throw Misuse(description: "too few arguments") }
            while let name = words.popFirst() {
                try call(String(decoding: name, as: UTF8.self), &words, fileSystem)
            }
        } catch let error as Misuse {
            response.diagnostics += Array("\(error.description)\n".utf8)
            response.status = 1
        } catch let error as FileSystemError {
            fail(error.errno)
        } catch {
            response.diagnostics += Array("\(error)\n".utf8)
            response.status = 1
        }
        return response
    }

    mutating func print(_ line: String) { response.output += Array("\(line)\n".utf8) }

    mutating func print(bytes: some Sequence<UInt8>) {
        response.output += Array(bytes)
        response.output.append(UInt8(ascii: "\n"))
    }

    private static let separator = Array(":".utf8)
    private static let endOfOptions = Array("--".utf8)

    private mutating func call(
        _ name: String, _ words: inout ArraySlice<[UInt8]>, _ fileSystem: InMemoryFileSystem
    ) throws {
        guard let form = CallSyntax.forms[name] else { throw Misuse(description: "syscall '\(name)' not supported") }
        let arguments = try arguments(form, &words)
        do throws(FileSystemError) {
            if try !perform(name, arguments, fileSystem) { print("0") }
        } catch {
            response.diagnostics += Array("\(name) returned -1\n".utf8)
            throw error
        }
    }

    /// Makes the call; returns whether it printed its result.
    private mutating func perform(
        _ name: String, _ arguments: CallArguments, _ fileSystem: InMemoryFileSystem
    ) throws(FileSystemError) -> Bool {
        do {
            return try callDescriptors(name, arguments, fileSystem) ?? callNames(name, arguments, fileSystem)
                ?? callAttributes(name, arguments, fileSystem) ?? false
        } catch let error as FileSystemError {
            throw error
        } catch let errno as Errno {
            throw FileSystemError(.resolve, errno)
        } catch {
            response.diagnostics += Array("\(error)\n".utf8)
            throw FileSystemError(.resolve, .invalidArgument, underlying: error)
        }
    }

    private func arguments(_ form: CallSyntax.Form, _ words: inout ArraySlice<[UInt8]>) throws -> CallArguments {
        var values: [CallArguments.Value] = []
        for (index, kind) in form.arguments.enumerated() {
            guard let word = words.first, word != Self.separator else {
                guard index >= form.arguments.count - form.optionalCount else {
                    throw Misuse(description: "too few arguments")
                }
                break
            }
            words.removeFirst()
            values.append(try value(of: word, kind, index))
        }
        guard words.isEmpty || words.popFirst() == Self.separator else {
            throw Misuse(description: "too many arguments")
        }
        return CallArguments(values)
    }

    private func value(of word: [UInt8], _ kind: CallSyntax.Argument, _ index: Int) throws -> CallArguments.Value {
        let text = String(decoding: word, as: UTF8.self)
        switch kind {
        case .text:
            return text == "NULL" || text == "DEADCODE" ? .fault : .text(word)
        case .descriptor where text == "AT_FDCWD":
            return .descriptor(.workingDirectory)
        case .descriptor where text == "BADFD":
            return .descriptor(Descriptor(rawValue: -1))
        case .number, .descriptor:
            guard let number = CallSyntax.number(word) else {
                throw Misuse(description: "invalid argument \(index), number expected [\(text)]")
            }
            guard case .descriptor = kind else { return .number(number) }
            guard let position = Int(exactly: number), descriptors.indices.contains(position) else {
                throw Misuse(description: "invalid descriptor \(number)")
            }
            return .descriptor(descriptors[position])
        }
    }

    private func identity(_ words: inout ArraySlice<[UInt8]>) throws -> Identity {
        var identity = Identity()
        while let word = words.first, word.count >= 2, word.first == UInt8(ascii: "-") {
            words.removeFirst()
            guard word != Self.endOfOptions else { break }
            let option = String(decoding: word.prefix(2), as: UTF8.self)
            let rest = Array(word.dropFirst(2))
            guard let value = rest.isEmpty ? words.popFirst() : rest else {
                throw Misuse(description: "\(option) wants a value")
            }
            let numbers = try value.split(separator: UInt8(ascii: ",")).map { part in
                guard let number = CallSyntax.number(Array(part)) else {
                    throw Misuse(description: "invalid number \(String(decoding: part, as: UTF8.self))")
                }
                return UInt32(truncatingIfNeeded: number)
            }
            guard let first = numbers.first else { throw Misuse(description: "\(option) wants a number") }
            switch option {
            case "-u": identity.user = UserID(rawValue: first)
            case "-g": identity.groups = numbers.map { GroupID(rawValue: $0) }
            case "-U": identity.umask = FilePermissions(rawValue: CInterop.Mode(truncatingIfNeeded: first & 0o777))
            default: throw Misuse(description: "unknown option \(option)")
            }
        }
        return identity
    }

    private mutating func fail(_ errno: Errno) {
        print(errno.symbol)
        response.status = 1
    }
}

extension Errno {
    /// The symbol of the error number, including those that only the helper uses.
    fileprivate var symbol: String {
        switch self {
        case .badAddress: "EFAULT"
        case .addressInUse: "EADDRINUSE"
        case .connectionRefused: "ECONNREFUSED"
        // Both are one number on Linux; the helper prints this symbol.
        case .notSupportedOnSocket, .notSupported: "EOPNOTSUPP"
        default: name
        }
    }
}

/// Calls on attributes.
extension CallSession {
    /// Makes the call if it is one of these; returns whether it printed its result.
    mutating func callAttributes(
        _ name: String, _ arguments: CallArguments, _ fileSystem: InMemoryFileSystem
    ) throws -> Bool? {
        switch name {
        case "chmod", "fchmod", "lchmod", "fchmodat":
            let (file, next) = try reference(name, arguments, flags: 3)
            try fileSystem.setPermissions(arguments.permissions(next), of: file)
        case "chown", "fchown", "lchown", "fchownat":
            let (file, next) = try reference(name, arguments, flags: 4)
            try fileSystem.setOwner(arguments.user(next), group: arguments.group(next + 1), of: file)
        case "stat", "fstat", "lstat", "fstatat":
            let (file, next) = try reference(name, arguments, flags: 2)
            let status = try fileSystem.nodeStatus(of: file)
            let fields = try arguments.text(name == "fstatat" ? 3 : next)
            print(fields.split(separator: ",").map { status.field($0) }.joined(separator: ","))
            return true
        case "access":
            let file = FileReference.path(try arguments.path(0))
            try fileSystem.checkAccess(UInt8(truncatingIfNeeded: arguments.number(1) & 7), to: file)
        case "pathconf", "fpathconf":
            let file: FileReference =
                name == "pathconf" ? .path(try arguments.path(0)) : .descriptor(arguments.descriptor(0))
            guard let limit = Self.limits[try arguments.text(1)] else {
                throw Misuse(description: "unknown name \(try arguments.text(1))")
            }
            _ = try fileSystem.status(of: file)
            print(limit)
            return true
        case "utimensat":
            try setTimes(arguments, fileSystem)
        default: return nil
        }
        return false
    }

    /// The limits that `pathconf(3)` reports on Linux.
    private static let limits = [
        "_PC_LINK_MAX": "65000", "_PC_NAME_MAX": "255", "_PC_PATH_MAX": "4096", "_PC_SYMLINK_MAX": "unlimited",
    ]

    /// The file that a call operates on, according to the call's name, and the index of the next argument.
    private func reference(
        _ name: String, _ arguments: CallArguments, flags: Int
    ) throws -> (FileReference, Int) {
        if name.hasSuffix("at"), name.count > "lstat".count {
            let noFollow = try Self.flag("AT_SYMLINK_NOFOLLOW", in: arguments.text(flags))
            let path = try arguments.path(1)
            return (.path(path, at: arguments.descriptor(0), followsSymbolicLinks: !noFollow), 2)
        }
        switch name.first {
        case "f": return (.descriptor(arguments.descriptor(0)), 1)
        case "l": return (.path(try arguments.path(0), followsSymbolicLinks: false), 1)
        default: return (.path(try arguments.path(0)), 1)
        }
    }

    private func setTimes(_ arguments: CallArguments, _ fileSystem: InMemoryFileSystem) throws {
        let follows = try arguments.text(6) != "AT_SYMLINK_NOFOLLOW"
        let file = FileReference.path(
            try arguments.path(1), at: arguments.descriptor(0), followsSymbolicLinks: follows)
        try fileSystem.setTimes(
            accessed: Self.time(arguments.number(2), arguments.text(3)),
            modified: Self.time(arguments.number(4), arguments.text(5)), of: file)
    }

    private static func time(_ seconds: Int64, _ nanoseconds: String) -> InMemoryFileSystem.TimeChange {
        switch nanoseconds {
        case "UTIME_NOW": .now
        case "UTIME_OMIT": .unchanged
        default: .to(FileTime(seconds: seconds, nanoseconds: Int32(nanoseconds) ?? -1))
        }
    }
}

extension InMemoryFileSystem.NodeStatus {
    /// One field of a status as the helper prints it.
    fileprivate func field(_ name: Substring) -> String {
        switch name {
        case "mode": "0" + String(status.permissions.rawValue, radix: 8)
        case "inode": String(status.inode)
        case "nlink": String(status.linkCount)
        case "uid": String(status.owner.rawValue)
        case "gid": String(status.group.rawValue)
        case "size": String(status.sizeInBytes)
        case "blocks": String(status.allocatedSizeInBytes / 512)
        case "atime": String(status.accessed.seconds)
        case "atime_ns": String(status.accessed.nanoseconds)
        case "mtime": String(status.modified.seconds)
        case "mtime_ns": String(status.modified.nanoseconds)
        case "ctime": String(status.changed.seconds)
        case "ctime_ns": String(status.changed.nanoseconds)
        case "major": String(DeviceNumber(encoded: deviceNumber).major)
        case "minor": String(DeviceNumber(encoded: deviceNumber).minor)
        case "type": typeName
        default: "unknown"
        }
    }

    private var typeName: String {
        switch status.type {
        case .fifo: "fifo"
        case .characterSpecial: "char"
        case .directory: "dir"
        case .blockSpecial: "block"
        case .regular: "regular"
        case .symbolicLink: "symlink"
        case .socket: "socket"
        default: "unknown"
        }
    }
}
