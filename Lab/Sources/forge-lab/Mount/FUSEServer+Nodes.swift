#if os(Linux)
import ForgeFileSystem
import SystemPackage

/// Requests for names and attributes.
extension FUSEServer {
    func lookUp(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let directory = try node(request.node)
        return try entry(of: try request.path(), in: directory)
    }

    /// The reply that describes a node to the kernel.
    private func entry(of name: POSIXPath, in directory: Descriptor) throws(FileSystemError) -> FUSEReply {
        var reply = FUSEReply()
        try tell(fileSystem.openNode(name, at: directory), &reply)
        return reply
    }

    /// Appends the entry of the node that a new descriptor holds.
    func tell(_ descriptor: Descriptor, _ reply: inout FUSEReply) throws(FileSystemError) {
        let status = try fileSystem.nodeStatus(of: .descriptor(descriptor))
        let number = status.status.inode
        if let superfluous = nodes.add(number, descriptor) { try fileSystem.close(superfluous) }
        reply.appendEntry(status, number: number)
    }

    func forget(_ request: inout FUSERequest) throws(FileSystemError) -> Answer {
        try forget(request.node, count: try request.u64())
        return .none
    }

    func forgetMany(_ request: inout FUSERequest) throws(FileSystemError) -> Answer {
        let count = try request.u32()
        try request.skip(4)
        for _ in 0..<count {
            let number = try request.u64()
            try forget(number, count: try request.u64())
        }
        return .none
    }

    private func forget(_ number: UInt64, count: UInt64) throws(FileSystemError) {
        if let descriptor = nodes.forget(number, count: count) { try fileSystem.close(descriptor) }
    }

    func attributes(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let flags = try request.u32()
        try request.skip(4)
        let byHandle = flags & FUSEProtocol.attributesByHandle != 0
        let file = byHandle ? try descriptor(request.u64()) : try node(request.node)
        return try attributes(of: file)
    }

    private func attributes(of file: Descriptor) throws(FileSystemError) -> FUSEReply {
        var reply = FUSEReply()
        reply.appendAttributes(try fileSystem.nodeStatus(of: .descriptor(file)))
        return reply
    }

    func setAttributes(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let changes = FUSEProtocol.AttributeChanges(rawValue: try request.u32())
        try request.skip(4)
        let handle = try request.u64()
        let size = try request.offset()
        try request.skip(8)
        let seconds = (try request.offset(), try request.offset(), try request.offset())
        let nanoseconds = (try request.u32(), try request.u32(), try request.u32())
        let mode = try request.u32()
        try request.skip(4)
        let user = try request.u32()
        let group = try request.u32()
        let node = try node(request.node)
        let file = FileReference.descriptor(node)
        if changes.contains(.mode) {
            try fileSystem.setPermissions(FilePermissions(rawValue: CInterop.Mode(mode & 0o7777)), of: file)
        }
        if !changes.isDisjoint(with: [.user, .group]) {
            try fileSystem.setOwner(
                changes.contains(.user) ? UserID(rawValue: user) : nil,
                group: changes.contains(.group) ? GroupID(rawValue: group) : nil, of: file)
        }
        if changes.contains(.size) {
            if changes.contains(.byHandle) {
                try fileSystem.truncate(.descriptor(try descriptor(handle)), to: size)
            } else {
                try fileSystem.truncate(node: node, to: size)
            }
        }
        let accessed = Self.time(
            changes, .accessed, .accessedNow, seconds.0, nanoseconds.0)
        let modified = Self.time(
            changes, .modified, .modifiedNow, seconds.1, nanoseconds.1)
        // A change of size has already set the modification time.
        if !changes.contains(.size) || modified != .now, accessed != .unchanged || modified != .unchanged {
            try fileSystem.setTimes(accessed: accessed, modified: modified, of: file)
        }
        return try attributes(of: node)
    }

    private static func time(
        _ changes: FUSEProtocol.AttributeChanges, _ isSet: FUSEProtocol.AttributeChanges,
        _ isNow: FUSEProtocol.AttributeChanges, _ seconds: Int64, _ nanoseconds: UInt32
    ) -> InMemoryFileSystem.TimeChange {
        guard changes.contains(isSet) else { return .unchanged }
        return changes.contains(isNow)
            ? .now : .to(FileTime(seconds: seconds, nanoseconds: Int32(truncatingIfNeeded: nanoseconds)))
    }

    func access(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let mask = try request.u32()
        try fileSystem.checkAccess(UInt8(mask & 7), to: .descriptor(try node(request.node)))
        return FUSEReply(capacity: 0)
    }

    func readLink(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let target = try fileSystem.readSymbolicLink(node: try node(request.node))
        var reply = FUSEReply(capacity: target.count)
        reply.append(target.bytes)
        return reply
    }

    func makeSymbolicLink(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let directory = try node(request.node)
        let name = try request.path()
        try fileSystem.createSymbolicLink(name, at: directory, to: try request.path())
        return try entry(of: name, in: directory)
    }

    func makeNode(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let mode = try request.u32()
        let deviceNumber = try request.u32()
        try request.skip(8)
        let directory = try node(request.node)
        let name = try request.path()
        try fileSystem.createNode(
            name, at: directory, type: FileType(rawValue: CInterop.Mode(mode & 0o170000)),
            permissions: FilePermissions(rawValue: CInterop.Mode(mode & 0o7777)), deviceNumber: UInt64(deviceNumber))
        return try entry(of: name, in: directory)
    }

    func makeDirectory(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let mode = try request.u32()
        try request.skip(4)
        let directory = try node(request.node)
        let name = try request.path()
        try fileSystem.createDirectory(
            name, at: directory, permissions: FilePermissions(rawValue: CInterop.Mode(mode & 0o7777)))
        return try entry(of: name, in: directory)
    }

    func unlink(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let directory = try node(request.node)
        try fileSystem.unlink(try request.path(), at: directory)
        return FUSEReply(capacity: 0)
    }

    func removeDirectory(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let directory = try node(request.node)
        try fileSystem.removeDirectory(try request.path(), at: directory)
        return FUSEReply(capacity: 0)
    }

    func rename(_ request: inout FUSERequest, hasFlags: Bool) throws(FileSystemError) -> FUSEReply {
        let newDirectory = try node(request.u64())
        let flags = hasFlags ? try request.u32() : 0
        if hasFlags { try request.skip(4) }
        let mode: RenameMode
        switch flags {
        case 0: mode = .replacing
        case 1: mode = .exclusive
        case 2: mode = .exchanging
        default: throw FileSystemError(.rename, .invalidArgument)
        }
        let directory = try node(request.node)
        let name = try request.path()
        try fileSystem.rename(name, at: directory, to: try request.path(), at: newDirectory, mode)
        return FUSEReply(capacity: 0)
    }

    func link(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let linked = try node(request.u64())
        let directory = try node(request.node)
        let name = try request.path()
        try fileSystem.link(node: linked, to: name, at: directory)
        return try entry(of: name, in: directory)
    }

    func fileSystemStatus(_ request: FUSERequest) throws(FileSystemError) -> FUSEReply {
        let capacity = try fileSystem.capacity(of: .descriptor(try node(request.node)))
        let usedBlocks = UInt64(clamping: capacity.usage.sizeInBytes / 4096)
        let blocks = capacity.quota.sizeInBytes.map { UInt64(clamping: $0 / 4096) } ?? 1 << 32
        let usedInodes = UInt64(clamping: capacity.usage.inodeCount)
        let inodes = capacity.quota.inodeCount.map { UInt64(clamping: $0) } ?? 1 << 32
        let freeBlocks = blocks > usedBlocks ? blocks - usedBlocks : 0
        var reply = FUSEReply()
        for number in [blocks, freeBlocks, freeBlocks, inodes, inodes > usedInodes ? inodes - usedInodes : 0] {
            reply.append(number)
        }
        reply.append(UInt32(4096))
        reply.append(UInt32(255))
        reply.append(UInt32(4096))
        reply.appendZeros(28)
        return reply
    }
}
#endif
