import ForgeFileSystem
import SystemPackage

/// Calls that open, read and write.
extension CallSession {
    /// Makes the call if it is one of these; returns whether it printed its result.
    mutating func callDescriptors(
        _ name: String, _ arguments: CallArguments, _ fileSystem: InMemoryFileSystem
    ) throws -> Bool? {
        switch name {
        case "open": try open(arguments, at: .workingDirectory, firstPath: 0, fileSystem)
        case "openat": try open(arguments, at: arguments.descriptor(0), firstPath: 1, fileSystem)
        case "create":
            let descriptor = try fileSystem.open(
                arguments.path(0), .readOnly, options: [.create, .exclusiveCreate],
                permissions: arguments.permissions(1))
            try fileSystem.close(descriptor)
        case "truncate": try fileSystem.truncate(.path(arguments.path(0)), to: arguments.number(1))
        case "ftruncate": try fileSystem.truncate(.descriptor(arguments.descriptor(0)), to: arguments.number(1))
        case "posix_fallocate":
            try fileSystem.allocate(arguments.descriptor(0), at: arguments.number(1), length: arguments.number(2))
        case "pread":
            let bytes = try fileSystem.readBytes(
                of: arguments.descriptor(0), at: arguments.number(2), count: Int(min(max(0, arguments.number(1)), 1024))
            )
            print(bytes: bytes.prefix { $0 != 0 })
            return true
        case "pwrite":
            _ = try arguments.bytes(1).withUnsafeBytes { bytes in
                try fileSystem.write(arguments.descriptor(0), from: bytes, at: arguments.number(2))
            }
        case "write":
            _ = try arguments.bytes(1).withUnsafeBytes { bytes in
                try fileSystem.write(arguments.descriptor(0), from: bytes, at: nil)
            }
        default: return nil
        }
        return false
    }

    private mutating func open(
        _ arguments: CallArguments, at directory: Descriptor, firstPath: Int, _ fileSystem: InMemoryFileSystem
    ) throws {
        let flags = try arguments.text(firstPath + 1)
        var mode = FileDescriptor.AccessMode.readOnly
        var options: FileDescriptor.OpenOptions = []
        for flag in try Self.flags(flags) {
            switch flag {
            case "O_RDONLY": break
            case "O_WRONLY": mode = .writeOnly
            case "O_RDWR": mode = .readWrite
            case "O_NONBLOCK": options.insert(.nonBlocking)
            case "O_APPEND": options.insert(.append)
            case "O_CREAT": options.insert(.create)
            case "O_TRUNC": options.insert(.truncate)
            case "O_EXCL": options.insert(.exclusiveCreate)
            case "O_NOFOLLOW": options.insert(.noFollow)
            case "O_DIRECTORY": options.insert(.directory)
            // These flags have no visible effect here.
            case "O_SYNC", "O_FSYNC", "O_NOCTTY", "O_DIRECT": break
            default: throw Misuse(description: "unknown flag '\(flag)'")
            }
        }
        let hasMode = arguments.count == firstPath + 3
        guard options.contains(.create) == hasMode else {
            throw Misuse(description: hasMode ? "too many arguments" : "too few arguments")
        }
        let descriptor = try fileSystem.open(
            arguments.path(firstPath), at: directory, mode, options: options,
            permissions: hasMode ? arguments.permissions(firstPath + 2) : [], resolution: [])
        descriptors.append(descriptor)
    }

    /// Flags separated by commas or bars.
    static func flags(_ text: String) throws -> [Substring] {
        text == "none" || text == "0" ? [] : text.split { $0 == "," || $0 == "|" }
    }

    /// Whether the only permitted flag is given.
    static func flag(_ name: String, in text: String) throws -> Bool {
        let flags = try flags(text)
        if let unknown = flags.first(where: { $0 != name }) { throw Misuse(description: "unknown flag '\(unknown)'") }
        return !flags.isEmpty
    }
}
