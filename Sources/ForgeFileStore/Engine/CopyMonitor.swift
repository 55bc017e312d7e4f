import ForgeFileSystem
import Foundation

/// The cancellation and the progress of a copy.
struct CopyMonitor: Sendable {
    let cancellation: Cancellation
    /// Its total is set to the size of the source, in bytes; cancelling it cancels the copy.
    let progress: Progress?

    /// Makes all pieces of a copy.
    ///
    /// - Throws: `CancellationError`, or ``ContentCopy/Failure``.
    func run(_ copy: ContentCopy, sizeInBytes: Int64) throws {
        repeat {
            // A total of zero is no progress to `Progress`, and ends the process if it has a parent.
            progress?.totalUnitCount = max(sizeInBytes, copy.offset, 1)
            progress?.completedUnitCount = copy.offset
            if progress?.isCancelled == true { throw CancellationError() }
            try cancellation.check()
        } while try copy.next()
        if let progress { progress.completedUnitCount = progress.totalUnitCount }
    }
}
