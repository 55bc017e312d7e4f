import ForgeFileSystem
import Synchronization
import SystemPackage

/// A part of a log's file that is reserved, filled with zeros and mapped before records are stored in it.
///
/// Writing zeros brings the pages into memory in a tenth of the time of a page fault for each.
final class LogWindow: Sendable {
    /// Begins at a multiple of every page size in use, which may be before the zeros.
    let range: Range<Int64>

    private let file: LogFile
    private let zeros: Range<Int64>
    private let state = Mutex(State.wanted)

    private enum State: Sendable {
        case wanted
        case made(FileMapping)
        case given
    }

    /// The space of a log after `offset`, up to `end` or slightly more.
    init(_ file: LogFile, after offset: Int64, upTo end: Int64, _ granularity: Int64) {
        self.file = file
        let limit = (end + granularity - 1) / granularity * granularity
        // One step back, so that a record that begins in the previous window fits into this one.
        range = max(0, offset / granularity * granularity - granularity)..<limit
        zeros = offset..<limit
    }

    /// Prepares the window unless that was done or it is no longer needed. After a failure, the next use tries again.
    func prepare() {
        state.withLock { state in
            guard case .wanted = state else { return }
            do throws(FileSystemError) {
                state = .made(try make())
            } catch {
                state = .given
            }
        }
    }

    /// The window, if it is prepared. Waits for a thread that is preparing it; no thread starts preparing it
    /// afterwards.
    func take() -> (mapping: FileMapping, range: Range<Int64>)? {
        state.withLock { state in
            defer { state = .given }
            guard case .made(let mapping) = state else { return nil }
            return (mapping, range)
        }
    }

    /// Reserves the space and maps it. Nothing may have been stored after the start of the zeros.
    func make() throws(FileSystemError) -> FileMapping {
        let fileSystem = file.fileSystem
        try fileSystem.retryingInterrupts { () throws(FileSystemError) in
            try fileSystem.allocate(
                file.descriptor, at: zeros.lowerBound, length: zeros.upperBound - zeros.lowerBound)
        }
        try writeZeros()
        return try fileSystem.map(
            file.descriptor, at: range.lowerBound, count: Int(range.upperBound - range.lowerBound))
    }

    private func writeZeros() throws(FileSystemError) {
        let size = Int(min(zeros.upperBound - zeros.lowerBound, 1 << 16))
        try withUnsafeTemporaryAllocation(byteCount: size, alignment: 16) { (buffer) throws(FileSystemError) in
            buffer.initializeMemory(as: UInt8.self, repeating: 0)
            var offset = zeros.lowerBound
            while offset < zeros.upperBound {
                let count = Int(min(Int64(buffer.count), zeros.upperBound - offset))
                try file.fileSystem.writeFully(
                    file.descriptor, from: UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: offset)
                offset += Int64(count)
            }
        }
    }
}
