#if os(Linux)
import ForgeFileSystem
import SystemPackage

/// Open files and directories.
extension FUSEServer {
    /// The flags of `open(2)` that the file system handles; the kernel handles the others.
    private static let options: FileDescriptor.OpenOptions = [.create, .exclusiveCreate, .truncate, .append]

    private static func split(
        _ flags: UInt32
    ) throws(FileSystemError) -> (mode: FileDescriptor.AccessMode, options: FileDescriptor.OpenOptions) {
        let flags = CInt(bitPattern: flags)
        // Access mode 3 permits only ioctl(2).
        guard flags & 3 != 3 else { throw FileSystemError(.open, .invalidArgument) }
        return (
            FileDescriptor.AccessMode(rawValue: flags & 3),
            FileDescriptor.OpenOptions(rawValue: flags & ~3).intersection(options)
        )
    }

    func open(_ request: inout FUSERequest, _ openFlags: UInt32) throws(FileSystemError) -> FUSEReply {
        let (mode, options) = try Self.split(try request.u32())
        let descriptor = try fileSystem.open(node: try node(request.node), mode, options: options)
        var reply = FUSEReply()
        reply.appendOpen(handle: handle(descriptor), flags: openFlags)
        return reply
    }

    func create(_ request: inout FUSERequest, _ openFlags: UInt32) throws(FileSystemError) -> FUSEReply {
        let (mode, options) = try Self.split(try request.u32())
        let permissions = FilePermissions(rawValue: CInterop.Mode(try request.u32() & 0o7777))
        try request.skip(8)
        let directory = try node(request.node)
        let descriptor = try fileSystem.open(
            try request.path(), at: directory, mode, options: options.union([.create, .noFollow]),
            permissions: permissions, resolution: [])
        var reply = FUSEReply()
        try tell(fileSystem.openNode(of: descriptor), &reply)
        reply.appendOpen(handle: handle(descriptor), flags: openFlags)
        return reply
    }

    func read(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let descriptor = try descriptor(request.u64())
        let offset = try request.offset()
        let size = min(Int(try request.u32()), FUSEDevice.maximumWriteSize)
        return try FUSEReply(count: size) { (buffer) throws(FileSystemError) in
            try fileSystem.readFully(descriptor, into: buffer, at: offset)
        }
    }

    func write(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let descriptor = try descriptor(request.u64())
        let offset = try request.offset()
        let size = Int(try request.u32())
        let writeFlags = try request.u32()
        try request.skip(8)
        let flags = FileDescriptor.OpenOptions(rawValue: CInt(bitPattern: try request.u32()))
        try request.skip(4)
        let bytes = try request.bytes(size)
        // Write-back of a mapping goes to its offset, even if the file is open for appending.
        let appends = flags.contains(.append) && writeFlags & FUSEProtocol.fromCache == 0
        try fileSystem.setAppends(appends, of: descriptor)
        let count = try fileSystem.write(descriptor, from: bytes, at: offset)
        var reply = FUSEReply()
        reply.append(UInt32(count))
        reply.append(UInt32(0))
        return reply
    }

    func release(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        try fileSystem.close(try descriptor(request.u64()))
        return FUSEReply(capacity: 0)
    }

    func synchronize(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let descriptor = try descriptor(request.u64())
        let isDataOnly = try request.u32() & FUSEProtocol.dataOnly != 0
        try fileSystem.synchronize(descriptor, isDataOnly ? .data : .full)
        return FUSEReply(capacity: 0)
    }

    func allocate(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let descriptor = try descriptor(request.u64())
        let offset = try request.offset()
        let length = try request.offset()
        guard try request.u32() == 0 else { throw FileSystemError(.allocate, .notSupported) }
        try fileSystem.allocate(descriptor, at: offset, length: length)
        return FUSEReply(capacity: 0)
    }

    // MARK: Directories

    func openDirectory(_ request: FUSERequest) throws(FileSystemError) -> FUSEReply {
        let descriptor = try fileSystem.open(node: try node(request.node), .readOnly, options: [])
        var reply = FUSEReply()
        reply.appendOpen(handle: handle(descriptor), flags: 0)
        return reply
    }

    func releaseDirectory(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let handle = try request.u64()
        listings[handle] = nil
        try fileSystem.close(try descriptor(handle))
        return FUSEReply(capacity: 0)
    }

    /// Lists as many names as fit. An entry's offset is its index in the listing, which is made when reading starts at
    /// 0, so that concurrent changes do not shift other entries.
    func list(_ request: inout FUSERequest, withAttributes: Bool) throws(FileSystemError) -> FUSEReply {
        let handle = try request.u64()
        let start = try request.u64()
        let size = Int(try request.u32())
        let directory = try descriptor(handle)
        if start == 0 || listings[handle] == nil { listings[handle] = try listing(of: directory) }
        let entries = listings[handle] ?? []
        var reply = FUSEReply(capacity: size)
        for index in Int(clamping: start)..<max(entries.count, Int(clamping: start)) {
            let entry = entries[index]
            let padding = (8 - entry.name.count % 8) % 8
            let length =
                (withAttributes ? FUSEProtocol.entrySize : 0) + FUSEProtocol.directoryEntryHeaderSize
                + entry.name.count + padding
            guard reply.bodyCount + length <= size else { break }
            if withAttributes { appendNode(entry, in: directory, &reply) }
            reply.append(entry.inode)
            reply.append(UInt64(index + 1))
            reply.append(UInt32(entry.name.count))
            reply.append(UInt32(entry.type.rawValue) >> 12)
            reply.append(entry.name.bytes)
            reply.appendZeros(padding)
        }
        return reply
    }

    private func listing(of directory: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        let names = try fileSystem.entries(of: directory)
        let own = try fileSystem.status(of: .descriptor(directory)).inode
        // The kernel resolves `..` itself; this number is informational.
        return [".", ".."].map { DirectoryEntry(name: $0, type: .directory, inode: own) } + names
    }

    /// Appends an entry with its node, or without one where the kernel has to look it up: the directory is readable but
    /// not searchable, or the name was removed.
    private func appendNode(_ entry: DirectoryEntry, in directory: Descriptor, _ reply: inout FUSEReply) {
        let isDot = entry.name == "." || entry.name == ".."
        do throws(FileSystemError) {
            guard !isDot else { throw FileSystemError(.list, .noSuchFileOrDirectory) }
            try tell(fileSystem.openNode(entry.name, at: directory), &reply)
        } catch {
            reply.appendZeros(FUSEProtocol.entrySize)
        }
    }
}
#endif
