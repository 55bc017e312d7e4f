import SystemPackage

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

    mutating func readPipe(_ index: Int, into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        guard !buffer.isEmpty else { return 0 }
        guard let held = pipes[index], !held.isEmpty else {
            if hasWriter(index) { throw .resourceTemporarilyUnavailable }
            return 0
        }
        let count = pipes[index]?.read(into: buffer) ?? 0
        noteAccess(index)
        return count
    }

    mutating func writePipe(_ index: Int, from buffer: UnsafeRawBufferPointer) throws(Errno) -> Int {
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
