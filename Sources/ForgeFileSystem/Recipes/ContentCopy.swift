/// A copy of the content of an open file to an empty one, made in pieces, so that the caller can stop between them.
///
/// The kernel copies where it can (``POSIXFileSystem/copyRange(from:at:to:at:count:)``), otherwise a buffer is read and
/// written. Holes stay holes if the file system reports them. The copy ends where the source ends when that is reached;
/// whether the source has changed meanwhile is for the caller to check.
package final class ContentCopy {
    /// A failed call, on one of the two files.
    package enum Failure: Error {
        case source(FileSystemError)
        case target(FileSystemError)

        /// The error, for a copy whose files are equal in rank.
        var error: FileSystemError {
            switch self {
            case .source(let error), .target(let error): error
            }
        }
    }

    /// How many bytes the kernel copies in one call, during which the copy cannot be stopped.
    private static let pieceSize: Int64 = 16 << 20
    private static let maximumBufferSize: Int64 = 1 << 20

    /// The number of bytes of the source that were copied or skipped.
    package private(set) var offset: Int64 = 0

    private let source: Descriptor
    private let sources: any POSIXFileSystem
    private let target: Descriptor
    private let targets: any POSIXFileSystem
    /// Whether the kernel is still asked to copy.
    private var usesKernel: Bool
    /// Whether the rest of the source may have holes.
    private var mayHaveHoles: Bool
    /// The end of the data at `offset`.
    private var dataEnd: Int64
    private let sourceSize: Int64
    private var endsInHole = false
    private var buffer: [UInt8] = []

    /// - Parameters:
    ///   - source: A file open for reading; its offset may move.
    ///   - status: Its status.
    ///   - sources: The file system of the source.
    ///   - target: A file open for writing.
    ///   - targets: The file system of the target; nil if both files are of one, which can then copy by itself.
    ///   - offset: The number of bytes that the target has already; it ends there.
    package init(
        of source: Descriptor, _ status: FileStatus, on sources: any POSIXFileSystem, to target: Descriptor,
        on targets: (any POSIXFileSystem)? = nil, startingAt offset: Int64 = 0
    ) {
        self.offset = offset
        self.source = source
        self.sources = sources
        self.target = target
        self.targets = targets ?? sources
        usesKernel = targets == nil
        sourceSize = status.sizeInBytes
        mayHaveHoles = status.allocatedSizeInBytes < status.sizeInBytes
        dataEnd = mayHaveHoles ? offset : .max
    }

    /// Whether everything that the source's status announced is copied. A file that has grown has another status, and
    /// the content of files that the kernel generates is not announced.
    package var isAtKnownEnd: Bool { !mayHaveHoles && !endsInHole && sourceSize > 0 && offset >= sourceSize }

    /// Copies the next piece, or skips a hole.
    ///
    /// - Returns: Whether there was one; false once at the end of the source.
    package func next() throws(Failure) -> Bool {
        if mayHaveHoles, offset >= dataEnd, try skipHole() { return true }
        let limit = dataEnd - offset
        var count = usesKernel ? try copyInKernel(min(limit, Self.pieceSize)) : 0
        // Nothing: the end, or a file whose content is generated when it is read.
        if count == 0 { count = try copyThroughBuffer(limit) }
        offset += count
        if count > 0 { endsInHole = false }
        guard count == 0, endsInHole else { return count > 0 }
        do throws(FileSystemError) {
            try targets.truncate(.descriptor(target), to: offset)
        } catch {
            throw .target(error)
        }
        return false
    }

    /// Moves to the next data; false if that is at `offset`.
    private func skipHole() throws(Failure) -> Bool {
        do throws(FileSystemError) {
            guard let data = try sources.nextData(of: source, at: offset) else {
                // The file may have grown since.
                mayHaveHoles = false
                dataEnd = .max
                guard sourceSize > offset else { return false }
                offset = sourceSize
                endsInHole = true
                return true
            }
            dataEnd = max(try sources.nextHole(of: source, at: data), data + 1)
            guard data > offset else { return false }
            offset = data
            endsInHole = true
            return true
        } catch {
            throw .source(error)
        }
    }

    /// Copies up to `count` bytes; 0 if the kernel copies nothing.
    private func copyInKernel(_ count: Int64) throws(Failure) -> Int64 {
        do throws(FileSystemError) {
            return Int64(
                try sources.retryingInterrupts { () throws(FileSystemError) in
                    try sources.copyRange(from: source, at: offset, to: target, at: offset, count: Int(clamping: count))
                })
        } catch _ {
            // Not supported for these two files; or else the error does not say which of them failed, and reading and
            // writing does.
            usesKernel = false
            return 0
        }
    }

    /// Copies up to `count` bytes; 0 at the end of the source.
    private func copyThroughBuffer(_ count: Int64) throws(Failure) -> Int64 {
        if buffer.isEmpty {
            // A small one if the kernel copies and a read has to find only the end.
            let size = usesKernel ? 1 << 16 : min(max(sourceSize - offset, 1), Self.maximumBufferSize)
            buffer = [UInt8](repeating: 0, count: Int(size))
        }
        let limit = min(buffer.count, Int(clamping: count))
        let done: Int
        do throws(FileSystemError) {
            done = try sources.readFully(source, into: &buffer, count: limit, at: offset)
        } catch {
            throw .source(error)
        }
        do throws(FileSystemError) {
            let bytes = buffer
            try targets.writeFully(target, from: bytes.span.extracting(first: done), at: offset)
        } catch {
            throw .target(error)
        }
        return Int64(done)
    }
}

extension POSIXFileSystem {
    /// Copies the whole content of an open file to an empty one.
    package func copyContent(of source: Descriptor, to target: Descriptor) throws(FileSystemError) {
        let copy = ContentCopy(of: source, try status(of: .descriptor(source)), on: self, to: target)
        do throws(ContentCopy.Failure) {
            while try copy.next() {}
        } catch {
            throw error.error
        }
    }
}
