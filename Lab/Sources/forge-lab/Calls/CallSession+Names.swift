import ForgeFileSystem
import SystemPackage

/// Calls on names and links.
extension CallSession {
    /// Makes the call if it is one of these; returns whether it printed its result.
    mutating func callNames(
        _ name: String, _ arguments: CallArguments, _ fileSystem: InMemoryFileSystem
    ) throws -> Bool? {
        let here = Descriptor.workingDirectory
        switch name {
        case "unlink": try fileSystem.unlink(arguments.path(0))
        case "unlinkat":
            if try Self.flag("AT_REMOVEDIR", in: arguments.text(2)) {
                try fileSystem.removeDirectory(arguments.path(1), at: arguments.descriptor(0))
            } else {
                try fileSystem.unlink(arguments.path(1), at: arguments.descriptor(0))
            }
        case "rmdir": try fileSystem.removeDirectory(arguments.path(0))
        case "mkdir": try fileSystem.createDirectory(arguments.path(0), permissions: arguments.permissions(1))
        case "mkdirat":
            try fileSystem.createDirectory(
                arguments.path(1), at: arguments.descriptor(0), permissions: arguments.permissions(2))
        case "link": try link(arguments.path(0), here, arguments.path(1), here, follows: false, fileSystem)
        case "linkat":
            try link(
                arguments.path(1), arguments.descriptor(0), arguments.path(3), arguments.descriptor(2),
                follows: Self.flag("AT_SYMLINK_FOLLOW", in: arguments.text(4)), fileSystem)
        case "symlink": try fileSystem.createSymbolicLink(arguments.path(1), to: arguments.path(0))
        case "symlinkat":
            try fileSystem.createSymbolicLink(
                arguments.path(2), at: arguments.descriptor(1), to: arguments.path(0))
        case "readlink":
            print(bytes: try fileSystem.readSymbolicLink(arguments.path(0), at: here).bytes)
            return true
        case "rename": try fileSystem.rename(arguments.path(0), to: arguments.path(1))
        case "renameat":
            try fileSystem.rename(
                arguments.path(1), at: arguments.descriptor(0), to: arguments.path(3), at: arguments.descriptor(2),
                .replacing)
        case "mkfifo": try makeFIFO(arguments.path(0), here, arguments.permissions(1), fileSystem)
        case "mkfifoat":
            try makeFIFO(arguments.path(1), arguments.descriptor(0), arguments.permissions(2), fileSystem)
        case "mknod": try makeNode(arguments, at: here, firstPath: 0, fileSystem)
        case "mknodat": try makeNode(arguments, at: arguments.descriptor(0), firstPath: 1, fileSystem)
        case "bind": try bind(arguments.path(0), here, fileSystem)
        case "bindat": try bind(arguments.path(1), arguments.descriptor(0), fileSystem)
        case "connect": try connect(arguments.path(0), here, fileSystem)
        case "connectat": try connect(arguments.path(1), arguments.descriptor(0), fileSystem)
        default: return nil
        }
        return false
    }

    private func link(
        _ path: POSIXPath, _ directory: Descriptor, _ newPath: POSIXPath, _ newDirectory: Descriptor, follows: Bool,
        _ fileSystem: InMemoryFileSystem
    ) throws {
        guard follows else {
            try fileSystem.link(path, at: directory, to: newPath, at: newDirectory)
            return
        }
        let node = try fileSystem.openNode(path, at: directory, followsSymbolicLinks: true)
        defer { close(node, fileSystem) }
        try fileSystem.link(node: node, to: newPath, at: newDirectory)
    }

    private func makeFIFO(
        _ path: POSIXPath, _ directory: Descriptor, _ permissions: FilePermissions, _ fileSystem: InMemoryFileSystem
    ) throws {
        try fileSystem.createNode(path, at: directory, type: .fifo, permissions: permissions, deviceNumber: 0)
    }

    private func makeNode(
        _ arguments: CallArguments, at directory: Descriptor, firstPath: Int, _ fileSystem: InMemoryFileSystem
    ) throws {
        let type: FileType
        switch try arguments.text(firstPath + 1) {
        case "c": type = .characterSpecial
        case "b": type = .blockSpecial
        case "f": type = .fifo
        case "d": type = .directory
        case "o": type = .regular
        default: throw Misuse(description: "wrong argument 1")
        }
        try fileSystem.createNode(
            arguments.path(firstPath), at: directory, type: type, permissions: arguments.permissions(firstPath + 2),
            deviceNumber: DeviceNumber(
                major: UInt32(truncatingIfNeeded: arguments.number(firstPath + 3)),
                minor: UInt32(truncatingIfNeeded: arguments.number(firstPath + 4))
            ).encoded)
    }

    /// Creates a socket node.
    private func bind(_ path: POSIXPath, _ directory: Descriptor, _ fileSystem: InMemoryFileSystem) throws {
        do throws(FileSystemError) {
            try fileSystem.createNode(
                Self.socketPath(path), at: directory, type: .socket, permissions: FilePermissions(rawValue: 0o777),
                deviceNumber: 0)
        } catch {
            if error.errno == .fileExists { throw Errno.addressInUse }
            throw error
        }
    }

    /// Looks up a socket node; the connection is always refused.
    private func connect(_ path: POSIXPath, _ directory: Descriptor, _ fileSystem: InMemoryFileSystem) throws {
        let node = try fileSystem.openNode(Self.socketPath(path), at: directory, followsSymbolicLinks: true)
        defer { close(node, fileSystem) }
        try fileSystem.checkAccess(2, to: .descriptor(node))
        throw Errno.connectionRefused
    }

    /// A socket address holds 107 bytes; the helper truncates longer paths.
    private static func socketPath(_ path: POSIXPath) -> POSIXPath { POSIXPath(path.bytes.prefix(107)) }

    private func close(_ descriptor: Descriptor, _ fileSystem: InMemoryFileSystem) {
        // The descriptor was just opened, so closing it cannot fail.
        do throws(FileSystemError) { try fileSystem.close(descriptor) } catch {}
    }
}

/// A device number in the 32 bits that the kernel and file systems of Linux store.
struct DeviceNumber {
    var major: UInt32
    var minor: UInt32

    init(major: UInt32, minor: UInt32) {
        self.major = major
        self.minor = minor
    }

    init(encoded: UInt64) {
        let bits = UInt32(truncatingIfNeeded: encoded)
        major = bits >> 8 & 0xFFF
        minor = bits & 0xFF | bits >> 12 & 0xFFF00
    }

    var encoded: UInt64 { UInt64(minor & 0xFF | (major & 0xFFF) << 8 | (minor & 0xFFF00) << 12) }
}

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
