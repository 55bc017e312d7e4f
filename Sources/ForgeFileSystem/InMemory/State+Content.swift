import SystemPackage

extension InMemoryFileSystem.State {
    /// The maximum transfer of one call, as on Linux.
    private static let maximumTransfer = 0x7FFF_F000

    mutating func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(Errno) -> Int {
        if let offset, offset < 0 { throw .invalidArgument }
        let file = try openFile(descriptor)
        if offset != nil { try requireOffsets(file) }
        guard openFiles[file].isReadable else { throw .badFileDescriptor }
        try checkRange(of: buffer.count, at: offset)
        let index = openFiles[file].inode
        guard !isDirectory(index) else { throw .isDirectory }
        if inodes[index].kind == .fifo { return try readPipe(index, into: buffer) }
        if let readError { throw failure(because: readError) }
        guard !buffer.isEmpty else { return 0 }
        let position = offset ?? openFiles[file].offset
        let limited = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(Self.maximumTransfer))
        // Beyond the maximum file size, a read does not even count as an access.
        guard position < options.maximumFileSizeInBytes else { return 0 }
        let count = contents[index].read(into: limited, at: position)
        noteAccess(index)
        if offset == nil { openFiles[file].offset = position + Int64(count) }
        return count
    }

    mutating func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(Errno) -> Int {
        if let offset, offset < 0 { throw .invalidArgument }
        let file = try openFile(descriptor)
        if offset != nil { try requireOffsets(file) }
        guard openFiles[file].isWritable else { throw .badFileDescriptor }
        try checkRange(of: buffer.count, at: offset)
        if inodes[openFiles[file].inode].kind == .fifo {
            return try writePipe(openFiles[file].inode, from: buffer)
        }
        if let writeError { throw failure(because: writeError) }
        guard !buffer.isEmpty else { return 0 }
        let index = openFiles[file].inode
        try requireWritableDevice(index)
        var position = offset ?? openFiles[file].offset
        if openFiles[file].appends, offset == nil || options.profile == .linux { position = contents[index].size }
        guard position < options.maximumFileSizeInBytes else { throw .fileTooLarge }
        var count = min(buffer.count, Self.maximumTransfer)
        count = Int(min(Int64(count), options.maximumFileSizeInBytes - position))
        let device = inodes[index].device
        if devices[device].quota.sizeInBytes != nil {
            count = contents[index].writableCount(count, at: position, freeBlocks: devices[device].freeBlocks)
            guard count > 0 else { throw .noSpace }
        }
        dropPrivilegeBits(index)
        writeBytes(UnsafeRawBufferPointer(rebasing: buffer[..<count]), to: index, at: position)
        if offset == nil { openFiles[file].offset = position + Int64(count) }
        return count
    }

    mutating func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(Errno) -> Int64 {
        let file = try openFile(descriptor)
        let index = openFiles[file].inode
        guard inodes[index].kind != .fifo else { throw .illegalSeek }
        let base: Int64
        switch origin {
        case .start: base = 0
        case .current: base = openFiles[file].offset
        case .end: base = contents[index].size
        case .data where isRegular(index):
            guard offset >= 0, let data = contents[index].nextData(from: offset) else { throw .noSuchAddressOrDevice }
            openFiles[file].offset = data
            return data
        default: throw .invalidArgument
        }
        let (position, overflows) = base.addingReportingOverflow(offset)
        guard !overflows, position >= 0, position <= options.maximumFileSizeInBytes else { throw .invalidArgument }
        openFiles[file].offset = position
        return position
    }

    mutating func truncate(_ reference: FileReference, to size: Int64) throws(Errno) {
        guard size >= 0 else { throw .invalidArgument }
        switch reference {
        case .descriptor(let descriptor):
            let file = try openFile(descriptor)
            let index = openFiles[file].inode
            guard isRegular(index), openFiles[file].isWritable else { throw .invalidArgument }
            try requireWritableDevice(index)
            try resize(index, to: size)
        case .path(let path, let directory, let followsLinks):
            try truncate(resolve(path, at: directory, followsLinks: followsLinks), to: size)
        }
    }

    mutating func truncate(_ index: Int, to size: Int64) throws(Errno) {
        guard size >= 0 else { throw .invalidArgument }
        guard !isDirectory(index) else { throw .isDirectory }
        guard !isSymbolicLink(index) else { throw .tooManySymbolicLinkLevels }
        guard isRegular(index) else { throw .invalidArgument }
        try requireWritableDevice(index)
        try require(.write, to: index)
        try resize(index, to: size)
    }

    private mutating func resize(_ index: Int, to size: Int64) throws(Errno) {
        guard size <= options.maximumFileSizeInBytes else { throw .fileTooLarge }
        if let writeError { throw failure(because: writeError) }
        dropPrivilegeBits(index)
        setSize(size, of: index)
    }

    mutating func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(Errno) {
        let file = try openFile(descriptor)
        guard offset >= 0, length > 0 else { throw .invalidArgument }
        guard openFiles[file].isWritable else { throw .badFileDescriptor }
        let index = openFiles[file].inode
        guard inodes[index].kind != .fifo else { throw .illegalSeek }
        let (end, overflows) = offset.addingReportingOverflow(length)
        guard !overflows, end <= options.maximumFileSizeInBytes else { throw .fileTooLarge }
        try requireWritableDevice(index)
        if let writeError { throw failure(because: writeError) }
        let wanted = contents[index].unallocatedBlocks(in: offset..<end)
        guard wanted <= devices[inodes[index].device].freeBlocks else { throw .noSpace }
        dropPrivilegeBits(index)
        reserve(offset..<end, of: index)
    }

    mutating func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(Errno) {
        let index = openFiles[try openFile(descriptor)].inode
        guard inodes[index].kind != .fifo else { throw .invalidArgument }
        synchronize(index, level)
    }

    /// The check for offsets precedes the check of the access mode.
    @inline(__always) private func requireOffsets(_ file: Int) throws(Errno) {
        guard inodes[openFiles[file].inode].kind != .fifo else { throw .illegalSeek }
    }

    /// Refuses a range that ends beyond the largest offset (`rw_verify_area` of Linux).
    @inline(__always) private func checkRange(of count: Int, at offset: Int64?) throws(Errno) {
        if let offset, offset.addingReportingOverflow(Int64(count)).overflow { throw .invalidArgument }
    }

    private mutating func dropPrivilegeBits(_ index: Int) {
        guard !isSuperuser else { return }
        let permissions = permissionsAfterWrite(index)
        if permissions != inodes[index].permissions { setAttributes(of: index) { $0.permissions = permissions } }
    }
}
