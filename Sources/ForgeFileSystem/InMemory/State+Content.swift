import SystemPackage

extension InMemoryFileSystem.State {
    /// The maximum transfer of one call, as on Linux.
    private static let maximumTransfer = 0x7FFF_F000

    mutating func read(
        _ descriptor: Descriptor, into buffer: inout OutputRawSpan, at offset: Int64?
    ) throws(Errno) -> Int {
        if let offset, offset < 0 { throw .invalidArgument }
        let file = try openFile(descriptor)
        if offset != nil { try requireOffsets(file) }
        guard openFiles[file].isReadable else { throw .badFileDescriptor }
        try checkRange(of: buffer.freeCapacity, at: offset)
        let index = openFiles[file].inode
        guard !isDirectory(index) else { throw .isDirectory }
        if inodes[index].kind == .fifo { return try readPipe(index, into: &buffer) }
        if let readError { throw failure(because: readError) }
        guard !buffer.isFull else { return 0 }
        let position = offset ?? openFiles[file].offset
        // Beyond the maximum file size, a read does not even count as an access.
        guard position < options.maximumFileSizeInBytes else { return 0 }
        let count = contents[index].read(into: &buffer, upTo: Self.maximumTransfer, at: position)
        noteAccess(index)
        if offset == nil { openFiles[file].offset = position + Int64(count) }
        return count
    }

    mutating func write(
        _ descriptor: Descriptor, from buffer: RawSpan, at offset: Int64?
    ) throws(Errno) -> Int {
        if let offset, offset < 0 { throw .invalidArgument }
        let file = try openFile(descriptor)
        if offset != nil { try requireOffsets(file) }
        guard openFiles[file].isWritable else { throw .badFileDescriptor }
        try checkRange(of: buffer.byteCount, at: offset)
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
        var count = min(buffer.byteCount, Self.maximumTransfer)
        count = Int(min(Int64(count), options.maximumFileSizeInBytes - position))
        let device = inodes[index].device
        if devices[device].quota.sizeInBytes != nil {
            count = contents[index].writableCount(count, at: position, freeBlocks: devices[device].freeBlocks)
            guard count > 0 else { throw .noSpace }
        }
        dropPrivilegeBits(index)
        writeBytes(buffer.extracting(first: count), to: index, at: position)
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
        // A sum above the largest offset wraps around to a negative one.
        let position = base &+ offset
        guard position >= 0, position <= options.maximumFileSizeInBytes else { throw .invalidArgument }
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
}

/// FIFOs (`fifo(7)`, `pipe(7)`). No call blocks: it fails like a non-blocking one on Linux.
extension InMemoryFileSystem.State {
    /// Requires the other end of a FIFO: to open it for writing, a reader; to open it for reading, a writer, unless the
    /// open is non-blocking. A FIFO opened for both has both ends.
    func requireOtherEnd(
        of index: Int, _ mode: FileDescriptor.AccessMode, _ flags: FileDescriptor.OpenOptions
    ) throws(Errno) {
        switch mode {
        case .writeOnly: guard hasReader(index) else { throw .noSuchAddressOrDevice }
        case .readOnly where !flags.contains(.nonBlocking):
            guard hasWriter(index) else { throw .noSuchAddressOrDevice }
        default: break
        }
    }

    mutating func readPipe(_ index: Int, into buffer: inout OutputRawSpan) throws(Errno) -> Int {
        guard !buffer.isFull else { return 0 }
        guard let held = pipes[index], !held.isEmpty else {
            if hasWriter(index) { throw .resourceTemporarilyUnavailable }
            return 0
        }
        let count = pipes[index]?.read(into: &buffer) ?? 0
        noteAccess(index)
        return count
    }

    mutating func writePipe(_ index: Int, from buffer: RawSpan) throws(Errno) -> Int {
        guard !buffer.isEmpty else { return 0 }
        guard hasReader(index) else { throw .brokenPipe }
        let count = pipes[index, default: InMemoryFileSystem.Pipe()].write(buffer)
        guard count > 0 else { throw .resourceTemporarilyUnavailable }
        let time = now()
        setAttributes(of: index) { $0.modified = time }
        return count
    }

    /// Discards the content of a FIFO once no process has it open.
    mutating func drainPipe(_ index: Int) {
        guard pipes[index] != nil, !hasReader(index), !hasWriter(index) else { return }
        pipes[index] = nil
    }

    private func hasReader(_ index: Int) -> Bool {
        openFiles.contains { $0.inode == index && $0.isReadable }
    }

    private func hasWriter(_ index: Int) -> Bool {
        openFiles.contains { $0.inode == index && $0.isWritable }
    }
}

extension InMemoryFileSystem {
    /// The content of a FIFO, in pages as on Linux (`fs/pipe.c`), so that it is full at the same byte.
    struct Pipe {
        private struct Page {
            var bytes: [UInt8]
            var start = 0
        }

        private static let pageSize = 4096
        private static let maximumPageCount = 16
        private var pages: [Page] = []

        var isEmpty: Bool { pages.isEmpty }

        /// Removes as many bytes as there are and fit, in FIFO order.
        mutating func read(into buffer: inout OutputRawSpan) -> Int {
            var done = 0
            var emptied = 0
            while !buffer.isFull, emptied < pages.count {
                let page = pages[emptied]
                let count = min(buffer.freeCapacity, page.bytes.count - page.start)
                for byte in page.bytes[page.start..<page.start + count] { buffer.append(byte) }
                done += count
                pages[emptied].start += count
                if pages[emptied].start == page.bytes.count { emptied += 1 }
            }
            pages.removeFirst(emptied)
            return done
        }

        /// Accepts as many bytes as there are pages for; the rest of the last page is used only for the odd end of a
        /// write, and only if that fits completely. So up to a page is written completely or not at all.
        mutating func write(_ buffer: RawSpan) -> Int {
            var done = 0
            let odd = buffer.byteCount % Self.pageSize
            if odd > 0, let last = pages.indices.last, pages[last].bytes.count + odd <= Self.pageSize {
                pages[last].bytes += [UInt8](copying: buffer.extracting(first: odd))
                done = odd
            }
            while done < buffer.byteCount, pages.count < Self.maximumPageCount {
                let count = min(Self.pageSize, buffer.byteCount - done)
                pages.append(Page(bytes: [UInt8](copying: buffer.extracting(done..<done + count))))
                done += count
            }
            return done
        }
    }
}
