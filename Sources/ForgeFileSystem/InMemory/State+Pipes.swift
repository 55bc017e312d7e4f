import SystemPackage

/// What goes through FIFOs (`fifo(7)`, `pipe(7)`). Nobody ever waits: who would have to is told so by the error that
/// Linux gives to those who do not want to wait.
extension InMemoryFileSystem.State {
    /// How much a pipe holds, and up to which length a write goes in whole or not at all (`PIPE_BUF`), as on Linux.
    private static let pipeCapacity = 65_536
    private static let atomicPipeWrite = 4096

    /// Whether a FIFO may be opened: for writing somebody must have it open for reading, and the other way round unless
    /// the reader does not wait. Opened for both, it has both ends.
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

    mutating func readPipe(
        _ index: Int, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(Errno) -> Int {
        guard offset == nil else { throw .illegalSeek }
        guard !buffer.isEmpty else { return 0 }
        let held = pipes[index] ?? []
        guard !held.isEmpty else {
            if hasWriter(index) { throw .resourceTemporarilyUnavailable }
            return 0
        }
        let count = min(buffer.count, held.count)
        buffer.copyBytes(from: held[..<count])
        pipes[index] = Array(held[count...])
        noteAccess(index)
        return count
    }

    mutating func writePipe(_ index: Int, from buffer: UnsafeRawBufferPointer, at offset: Int64?) throws(Errno) -> Int {
        guard offset == nil else { throw .illegalSeek }
        guard !buffer.isEmpty else { return 0 }
        guard hasReader(index) else { throw .brokenPipe }
        let room = Self.pipeCapacity - (pipes[index]?.count ?? 0)
        guard room >= (buffer.count <= Self.atomicPipeWrite ? buffer.count : 1) else {
            throw .resourceTemporarilyUnavailable
        }
        let count = min(room, buffer.count)
        pipes[index, default: []] += buffer[..<count]
        let time = now()
        setAttributes(of: index) { $0.modified = time }
        return count
    }

    /// What a FIFO holds is gone once nobody has it open.
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
