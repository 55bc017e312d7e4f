import ForgeFileSystem
import SystemPackage

// Memory safety: A record is assembled in memory of its size that this log alone uses: the mapped end of its file, or
// the scratch memory, which is valid until the next record.

/// An open log with a known end, to which records are appended: stored into reserved, mapped space, or, where files
/// cannot be mapped, with one write each.
///
/// A record survives a kill of the process once `append` returns, and a power cut after a flush. The log of a store in
/// memory has no file: it keeps no record, and only numbers the changes.
struct AppendLog: ~Copyable, Sendable {
    private let openFile: LogFile?

    /// The offset of the next record.
    private(set) var end: Int64

    /// The sequence number of the last record.
    private(set) var sequence: UInt64

    /// The sequence number of the last record that is known to have reached the device.
    private(set) var flushedSequence: UInt64

    /// Whether the last record is a flush marker, or there is no record.
    private(set) var endsFlushed: Bool

    /// Whether a flush failed, so that no write is acknowledged any more.
    private(set) var isPoisoned = false

    /// Whether the name of this log might not be durable yet: the process that renamed it may have been killed.
    private(set) var isNameUnconfirmed = true

    /// The number of times that all records were removed in place.
    private(set) var restartCount = 0

    /// Whether part of a failed record may be stored beyond the end, because the device was locked before it could be
    /// truncated. It must be truncated before the next append.
    private var hasTail = false

    /// The size of all records.
    @inline(__always)
    var recordBytes: Int64 { end - Int64(LogHeader.size) }

    private var space: LogSpace
    private let checksum: CRC32C
    private var scratch = Scratch()

    /// A log that ends at `end`.
    init(
        _ file: LogFile, end: Int64, sequence: UInt64, flushedSequence: UInt64, endsFlushed: Bool, space: LogSpace
    ) {
        openFile = file
        self.end = end
        self.sequence = sequence
        self.flushedSequence = flushedSequence
        self.endsFlushed = endsFlushed
        self.space = space
        checksum = file.header.fileID.checksum
    }

    /// A log without a file.
    init() {
        openFile = nil
        (end, sequence, flushedSequence, endsFlushed) = (Int64(LogHeader.size), 0, 0, true)
        space = LogSpace(LogSpace.Options(isMapped: false))
        checksum = CRC32C()
    }

    /// The file of a log on disk.
    var file: LogFile {
        guard let openFile else { preconditionFailure("a log in memory has no file") }
        return openFile
    }

    /// Appends a record.
    ///
    /// - Parameters:
    ///   - code: The operation.
    ///   - name: The name of the key; empty for an operation without a key.
    ///   - value: The encoded value, or the content of a batch.
    ///   - count: The number of changes; each takes a sequence number.
    /// - Returns: The sequence number of the last change.
    /// - Throws: ``FileSystemError``, `ioError` if the mapped file lost the page. The log is unchanged; if that
    ///   could not be achieved, it is poisoned.
    @inline(__always)
    mutating func append(
        _ code: LogRecord.Code, _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, count: UInt64 = 1
    ) throws(FileSystemError) -> UInt64 {
        guard sequence < LogRecord.maximumSequence - count else { throw FileSystemError(.write, .overflow) }
        guard openFile != nil else {
            sequence += count
            return sequence
        }
        if sequence - flushedSequence >= UInt64(UInt32.max) - count { try flushNow() }
        let size = LogRecord.size(nameCount: name.count, valueSize: value.count)
        if hasTail { try dropTailLeftWhileLocked() }
        let isMapped = space.holds(size, at: end) ? true : try reserve(size, for: code)
        // A mapping of the system's own is written in place.
        let place = unsafe space.memory(size, at: end)
        let record = unsafe place ?? scratch.bytes(size)
        unsafe LogRecord.write(
            code, flags: 0, name, value, sequence: sequence + count,
            unflushedCount: UInt32(truncatingIfNeeded: sequence + count - 1 - flushedSequence), checksum: checksum,
            to: record)
        if unsafe place == nil {
            defer { scratch.releaseLarge() }
            if isMapped {
                unsafe space.store(UnsafeRawBufferPointer(record), at: end)
            } else {
                try unsafe write(UnsafeRawBufferPointer(record))
            }
        }
        if isMapped, space.hasFaulted {
            isPoisoned = true
            throw FileSystemError(.write, .ioError, path: .logName)
        }
        end += Int64(size)
        sequence += count
        endsFlushed = code == .flushed
        return sequence
    }

    /// Appends a record without a key; see above.
    mutating func append(_ code: LogRecord.Code) throws(FileSystemError) -> UInt64 {
        try unsafe append(code, .empty, .empty)
    }

    @inline(never)
    private mutating func reserve(_ size: Int, for code: LogRecord.Code) throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            return try space.reserve(size, at: end, of: file, for: code)
        } catch {
            if space.hasLostWrites { isPoisoned = true }
            guard error.isOutOfSpace, !isPoisoned, code.isPossibleOnFullDevice else { throw error }
            // Written instead, it may need no further block: the last one of the file may have room.
            try writeBack()
            space.release()
            return false
        }
    }

    /// Writes back the mapped windows, which leaves a flush of the file to do.
    private mutating func writeBack() throws(FileSystemError) {
        do throws(FileSystemError) {
            for mapping in space.takeMappings() { try mapping.writeBack() }
        } catch {
            isPoisoned = true
            throw error
        }
    }

    /// Whether the next window should be prepared.
    @inline(__always)
    var wantsSpace: Bool { end >= space.preparesAt }

    /// The next window, to be prepared by the caller.
    mutating func nextSpace() -> LogWindow? { wantsSpace ? space.next(of: file) : nil }

    private mutating func write(_ record: UnsafeRawBufferPointer) throws(FileSystemError) {
        do throws(FileSystemError) {
            try unsafe file.fileSystem.writeFully(file.descriptor, from: record, at: end)
        } catch {
            cutBack()
            throw error
        }
    }

    /// Refuses all later writes: the content of the device, or the file that the next opening finds, is unknown.
    mutating func poison() {
        isPoisoned = true
    }
}

// MARK: Flushing

extension AppendLog {
    /// A flush of everything appended so far; it runs without access to the log.
    struct Flush: Sendable {
        fileprivate let file: LogFile
        fileprivate let mappings: [FileMapping]
        fileprivate let directory: Descriptor?
        fileprivate let sequence: UInt64

        func run() throws(FileSystemError) {
            for mapping in mappings { try mapping.writeBack() }
            try file.fileSystem.synchronize(file.descriptor, .data)
            if let directory { try file.fileSystem.synchronize(directory, .full) }
        }
    }

    /// A flush of everything appended; the caller reports its end by ``didFlush(_:)`` or ``poison()``.
    mutating func startFlush(directory: Descriptor) -> Flush {
        Flush(
            file: file, mappings: space.takeMappings(), directory: isNameUnconfirmed ? directory : nil,
            sequence: sequence)
    }

    /// Whether a flush is needed to make the records up to a sequence number durable.
    func needsFlush(_ wanted: UInt64) -> Bool { flushedSequence < wanted || isNameUnconfirmed }

    mutating func didFlush(_ flush: Flush) {
        flushedSequence = max(flushedSequence, flush.sequence)
        // Another process may have replaced the log that was flushed.
        if flush.directory != nil, flush.file === file { isNameUnconfirmed = false }
    }

    /// Flushes before the number of unflushed records exceeds what a record's header can hold.
    @inline(never)
    private mutating func flushNow() throws(FileSystemError) {
        try writeBack()
        do throws(FileSystemError) {
            try file.fileSystem.synchronize(file.descriptor, .data)
        } catch {
            isPoisoned = true
            throw error
        }
        flushedSequence = sequence
    }

    /// Advances the end past the records that another process has appended.
    mutating func follow(to end: Int64, sequence: UInt64, flushedSequence: UInt64, endsFlushed: Bool) {
        self.end = end
        self.sequence = sequence
        self.endsFlushed = endsFlushed
        self.flushedSequence = max(self.flushedSequence, flushedSequence)
    }

    /// Releases the space reserved beyond the end.
    mutating func trim() throws(FileSystemError) {
        releaseSpace()
        try file.fileSystem.truncate(.descriptor(file.descriptor), to: end)
    }

    /// Releases reserved space, including space in preparation; nothing may be appended afterwards.
    mutating func releaseSpace() { space.release() }
}

// MARK: Removing everything

extension AppendLog {
    /// Removes all records in place, durably and without additional space: the size of a file changes at once.
    ///
    /// A flush marker, flagged as retained, continues the sequence numbers. Until it is durable no other record is
    /// written, so that a power cut leaves the log as it was, or without values.
    mutating func removeRecords() throws(FileSystemError) {
        let (fileSystem, descriptor) = (file.fileSystem, file.descriptor)
        let start = Int64(LogHeader.size)
        let size = LogRecord.size(nameCount: 0, valueSize: 0)
        // A device that refuses to overwrite a block with its own content would refuse the record too.
        let content = try fileSystem.readBytes(
            of: descriptor, at: start, count: Int(min(Int64(size), end - start)))
        try fileSystem.writeBytes(content, to: descriptor, at: start)
        space.release()
        try fileSystem.truncate(.descriptor(descriptor), to: start)
        end = start
        restartCount += 1
        do throws(FileSystemError) {
            let record = unsafe scratch.bytes(size)
            unsafe LogRecord.write(
                .flushed, flags: LogRecord.retainedFlag, .empty, .empty, sequence: sequence + 1, unflushedCount: 0,
                checksum: checksum, to: record)
            try unsafe fileSystem.writeFully(descriptor, from: UnsafeRawBufferPointer(record), at: end)
            try fileSystem.synchronize(descriptor, .data)
        } catch {
            isPoisoned = true
            throw error
        }
        end += Int64(size)
        sequence += 1
        flushedSequence = sequence
        endsFlushed = true
        hasTail = false
    }
}

// MARK: The tail

extension AppendLog {
    /// Removes everything beyond the end, durably.
    mutating func dropTail() throws(FileSystemError) {
        try file.fileSystem.truncate(.descriptor(file.descriptor), to: end)
        do throws(FileSystemError) {
            try file.fileSystem.synchronize(file.descriptor, .data)
        } catch {
            isPoisoned = true
            throw error
        }
        flushedSequence = sequence
    }

    private mutating func cutBack() {
        do throws(FileSystemError) {
            try dropTail()
        } catch {
            // The append's own failure is thrown; nothing may be written after a record that may be incomplete. Once a
            // locked device is unlocked, the record can be truncated.
            if error.isLocked, !isPoisoned { hasTail = true } else { isPoisoned = true }
        }
    }

    /// Retries the removal that failed while the device was locked.
    private mutating func dropTailLeftWhileLocked() throws(FileSystemError) {
        do throws(FileSystemError) {
            try dropTail()
            hasTail = false
        } catch {
            if !error.isLocked { isPoisoned = true }
            throw error
        }
    }
}

/// Memory in which records are assembled.
@safe
struct Scratch: ~Copyable, @unchecked Sendable {
    // Invariant of the unchecked conformance: the memory has one owner.

    private var memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 512, alignment: 16)

    private static let keptSize = 1 << 16

    deinit { unsafe memory.deallocate() }

    /// `count` undefined bytes, valid until the next call.
    @inline(__always)
    mutating func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if unsafe count > memory.count { resize(count) }
        return unsafe UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
    }

    /// Releases the memory of a large record, which no later one may need.
    @inline(__always)
    mutating func releaseLarge() {
        if unsafe memory.count > Self.keptSize { resize(0) }
    }

    @inline(never)
    private mutating func resize(_ count: Int) {
        unsafe memory.deallocate()
        unsafe memory = .allocate(byteCount: max(count, 512), alignment: 16)
    }
}
