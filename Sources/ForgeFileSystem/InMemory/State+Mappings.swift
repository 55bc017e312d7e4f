import SystemPackage

// Memory safety: The pages of a mapping are freed when their last owner is, and every range is clamped to them before
// it is copied.

/// Mapped files (`mmap(2)`): each mapping has its own memory, and every change of a content is applied to all of them.
extension InMemoryFileSystem.State {
    typealias Mapping = InMemoryFileSystem.Mapping
    typealias Pages = InMemoryFileSystem.Pages

    /// The size of a process's address space, as on Linux on x86-64.
    private static let addressSpace: Int64 = 1 << 47

    /// 16 KiB on Apple's processors.
    private var pageSize: Int64 { options.profile == .darwin ? 16_384 : 4096 }

    /// The checks in the order of Linux, or of Darwin.
    mutating func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(Errno) -> Pages {
        guard offset % pageSize == 0, count >= 0 else { throw .invalidArgument }
        let file = try openFile(descriptor)
        let index = openFiles[file].inode
        let isNode = !openFiles[file].isReadable && !openFiles[file].isWritable
        guard !isNode else { throw .badFileDescriptor }
        guard count > 0 else { throw .invalidArgument }
        guard count <= Self.addressSpace else { throw .noMemory }
        // The end of the last page counts.
        let length = (Int64(count) + pageSize - 1) / pageSize * pageSize
        let isWithinFiles = offset >= 0 && !offset.addingReportingOverflow(length).overflow
        switch (options.profile, isRegular(index)) {
        case (.darwin, let isRegular):
            guard isRegular, isWithinFiles else { throw .invalidArgument }
        case (.linux, true):
            guard isWithinFiles else { throw .overflow }
        case (.linux, false):
            // Files that are not regular have no maximum size, and offsets are unsigned (file_mmap_ok of Linux).
            let isAddressable = !UInt64(bitPattern: offset).addingReportingOverflow(UInt64(length)).overflow
            guard isAddressable else { throw .overflow }
        }
        guard openFiles[file].isReadable, openFiles[file].isWritable else { throw .permissionDenied }
        guard isRegular(index) else { throw .operationNotSupportedByDevice }
        try requireWritableDevice(index)
        guard let pages = Pages(count: count) else { throw .noMemory }
        unsafe contents[index].copyWritten(into: pages.memory, at: offset)
        noteAccess(index)
        hold(index)
        mappings.append(Mapping(inode: index, process: current, range: offset..<offset + Int64(count), pages: pages))
        return pages
    }

    mutating func unmap(_ pages: Pages) {
        guard let place = place(of: pages) else { return }
        let index = mappings[place].inode
        mappings.remove(at: place)
        release(index)
    }

    /// Removes all mappings of a process, when it ends.
    mutating func unmapAll(of process: Int) {
        while let place = mappings.firstIndex(where: { $0.process == process }) { unmap(mappings[place].pages) }
    }

    /// Stores bytes through a mapping.
    ///
    /// Has no effect if the process of the mapping has ended.
    mutating func store(_ bytes: RawSpan, at offset: Int, in pages: Pages) {
        guard let place = place(of: pages) else { return }
        begin(mappings[place].process)
        let index = mappings[place].inode
        let start = mappings[place].range.lowerBound + Int64(offset)
        let size = contents[index].size
        let inFile = bytes.extracting(first: Int(max(0, min(start + Int64(bytes.byteCount), size) - start)))
        guard isReachable(start..<start + Int64(bytes.byteCount), of: index), hasSpace(inFile, at: start, in: index)
        else {
            mappings[place].hasFaulted = true
            return mappings[place].show(bytes, at: start)
        }
        if !inFile.isEmpty {
            storeBytes(inFile, to: index, at: start, isNoticed: !mappings[place].isModified)
            mappings[place].isModified = true
        }
        // Bytes beyond the end of the file are visible in all its mappings, which share the page, but not in the file.
        for mapping in mappings where mapping.inode == index { mapping.show(bytes, at: start) }
    }

    private func hasSpace(_ bytes: RawSpan, at start: Int64, in index: Int) -> Bool {
        let wanted = contents[index].unallocatedBlocks(in: start..<start + Int64(bytes.byteCount))
        return wanted <= devices[inodes[index].device].freeBlocks && !isReadOnly(index)
    }

    /// Records a fault if a loaded range is beyond the file's last page.
    mutating func load(_ range: Range<Int>, of pages: Pages) {
        guard !range.isEmpty, let place = place(of: pages) else { return }
        let start = mappings[place].range.lowerBound
        let loaded = start + Int64(range.lowerBound)..<start + Int64(range.upperBound)
        if !isReachable(loaded, of: mappings[place].inode) { mappings[place].hasFaulted = true }
    }

    func hasFaulted(_ pages: Pages) -> Bool {
        place(of: pages).map { mappings[$0].hasFaulted } ?? false
    }

    mutating func writeBack(_ pages: Pages) throws(Errno) {
        guard let place = place(of: pages) else { throw .noMemory }
        let index = mappings[place].inode
        if let writeError {
            writeBack(mappings[place].range, of: index, succeeds: false)
            throw failure(because: writeError)
        }
        mappings[place].isModified = false
        writeBack(mappings[place].range, of: index, succeeds: true)
    }

    private func place(of pages: Pages) -> Int? {
        mappings.firstIndex { $0.pages === pages }
    }

    /// Whether a range ends within the page that contains the file's last byte.
    private func isReachable(_ range: Range<Int64>, of index: Int) -> Bool {
        range.upperBound <= (contents[index].size + pageSize - 1) / pageSize * pageSize
    }

    // MARK: Changes of the file by other calls

    /// Updates the mappings before bytes are written.
    func showWrite(_ bytes: RawSpan, to index: Int, at offset: Int64) {
        showResize(of: index, to: max(contents[index].size, offset + Int64(bytes.byteCount)))
        for mapping in mappings where mapping.inode == index { mapping.show(bytes, at: offset) }
    }

    /// Updates the mappings before the size changes: bytes between the old and the new end read as zeros, including
    /// stores beyond the old end.
    func showResize(of index: Int, to newSize: Int64) {
        let size = contents[index].size
        let zeros = newSize < size ? newSize..<size : size..<min(newSize, (size / pageSize + 1) * pageSize)
        for mapping in mappings where mapping.inode == index { mapping.showZeros(zeros) }
    }

    /// Makes the next store into a file count as a modification again.
    mutating func forgetStores(into index: Int) {
        for place in mappings.indices where mappings[place].inode == index { mappings[place].isModified = false }
    }
}

extension InMemoryFileSystem {
    /// A mapped part of a file.
    struct Mapping: Sendable {
        /// The index of the inode in the table of inodes.
        var inode: Int
        var process: Int
        /// The range in the file.
        var range: Range<Int64>
        var pages: Pages
        /// Whether it has stores that were not written back.
        var isModified = false
        /// Whether an access hit a page without a file behind it.
        var hasFaulted = false
    }

    /// The memory that the owner of a mapping sees: a copy of the file's content that is updated with every change.
    ///
    /// It is written only under the lock of the tree, and read without it by the owner, like the system's memory;
    /// callers must order such reads themselves.
    @safe
    final class Pages: @unchecked Sendable {
        let memory: UnsafeMutableRawBufferPointer

        /// Below this size, filling memory with zeros is cheaper than mapping it.
        private static let mappedFromCount = 1 << 16

        /// Zero-filled; nil if there is no memory.
        init?(count: Int) {
            guard count >= Self.mappedFromCount else {
                unsafe memory = .allocate(byteCount: count, alignment: 16)
                _ = unsafe memory.initializeMemory(as: UInt8.self, repeating: 0)
                return
            }
            guard let base = unsafe sysMapAnonymous(count) else { return nil }
            unsafe memory = UnsafeMutableRawBufferPointer(start: base, count: count)
        }

        deinit {
            guard unsafe memory.count >= Self.mappedFromCount else { return unsafe memory.deallocate() }
            // This can fail only for a range that was never mapped.
            if let base = unsafe memory.baseAddress { _ = unsafe sysUnmap(base, memory.count) }
        }
    }
}

extension InMemoryFileSystem.Mapping {
    /// Copies bytes of the file into the memory, as far as they are mapped.
    func show(_ bytes: RawSpan, at offset: Int64) {
        let shown = (offset..<offset + Int64(bytes.byteCount)).clamped(to: range)
        guard !shown.isEmpty else { return }
        let source = bytes.extracting(droppingFirst: Int(shown.lowerBound - offset)).extracting(first: shown.count)
        unsafe source.withUnsafeBytes { unsafe memory(of: shown).copyMemory(from: $0) }
    }

    /// Fills a range of the file with zeros.
    func showZeros(_ zeros: Range<Int64>) {
        let shown = zeros.clamped(to: range)
        guard !shown.isEmpty else { return }
        _ = unsafe memory(of: shown).initializeMemory(as: UInt8.self, repeating: 0)
    }

    private func memory(of part: Range<Int64>) -> UnsafeMutableRawBufferPointer {
        let start = Int(part.lowerBound - range.lowerBound)
        return unsafe UnsafeMutableRawBufferPointer(rebasing: pages.memory[start..<start + part.count])
    }
}
