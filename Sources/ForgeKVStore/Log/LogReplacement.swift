package import ForgeFileSystem
import SystemPackage

// Memory safety: The bytes of a name or a content are used only while the closure that provides them runs.

/// A log that is written beside the current one and then replaces it.
///
/// Until it is renamed into place, the old log remains valid; ``discard()`` removes the new one.
struct LogReplacement: ~Copyable {
    private let file: LogFile
    private let directory: Descriptor
    private let name: POSIXPath
    private let checksum: CRC32C
    private var end: Int64 = 0
    private var sequence: UInt64 = 0
    private var endsFlushed = true
    private var buffer: [UInt8]
    private var space: LogSpace?

    /// The sequence number of the last record that is on the device.
    private(set) var synchronizedSequence: UInt64 = 0

    private static let bufferSize = 1 << 20

    init(
        _ header: LogHeader, _ name: POSIXPath = LogTemporaryFile.newLog, at directory: Descriptor,
        on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        file = LogFile(
            try LogTemporaryFile.create(name, at: directory, on: fileSystem), header: header, on: fileSystem)
        self.name = name
        self.directory = directory
        checksum = header.fileID.checksum
        buffer = header.encoded()
    }

    var header: LogHeader { file.header }

    /// The size of the log with all that was added.
    var size: Int64 { end + Int64(buffer.count) }

    /// Whether all added records are on the device.
    var isSynchronized: Bool { synchronizedSequence == sequence }

    /// Adds the retained values with their sequence numbers, in ascending order, so that a compacted log is the same in
    /// every process. They include the effects of all writes up to `number`.
    mutating func append(retained values: inout CollectedValues, upTo number: UInt64) throws(FileSystemError) {
        try values.forEach { (name, value, revision) throws(FileSystemError) in
            try append(.set, name, value, sequence: revision)
        }
        // The next record continues from `number`; otherwise a scan would report missing records.
        if sequence < number { try appendFlushed(number) }
    }

    /// Adds a flush marker with this number: all earlier records are on the device. That holds once the marker can be
    /// read, provided that nothing else is added before the log is flushed.
    mutating func appendFlushed(_ number: UInt64) throws(FileSystemError) {
        let none: [UInt8] = []
        try append(.flushed, none.span, none.span, sequence: number)
    }

    /// Adds the records in a byte range of another log.
    mutating func append(_ range: Range<Int64>, of log: LogFile) throws(FileSystemError) {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let start = buffer.count
            let count = Int(min(range.upperBound - offset, Int64(Self.bufferSize)))
            buffer += try log.fileSystem.readBytes(of: log.descriptor, at: offset, count: count)
            let taken = try adopt(from: start, log.header.fileID.checksum)
            // The record is longer than the bytes read so far, so it is read separately.
            let next = taken > 0 ? taken : try adoptLarge(from: start, at: offset, of: log)
            offset += Int64(next)
            buffer.removeLast(buffer.count - start - next)
            if buffer.count >= Self.bufferSize { try write() }
        }
    }

    /// Converts the records in the buffer from `start` on to records of this log; returns their size in bytes.
    private mutating func adopt(from start: Int, _ old: CRC32C) throws(FileSystemError) -> Int {
        var position = start
        var last = sequence
        let flushed = synchronizedSequence
        let checksum = checksum
        while let frame = try Self.frame(of: buffer, at: position, old) {
            let record = position..<position + LogRecord.frameSize + frame.payloadSize
            LogRecord.addChecksum(
                to: record, of: &buffer, unflushedCount: UInt32(clamping: frame.sequence - flushed - 1),
                checksum: checksum)
            last = frame.sequence
            position = record.upperBound
        }
        if position > start { endsFlushed = false }
        sequence = last
        return position - start
    }

    /// The frame of the record at a position, if all of it is there.
    private static func frame(
        of buffer: [UInt8], at position: Int, _ checksum: CRC32C
    ) throws(FileSystemError) -> LogRecord.Frame? {
        guard buffer.count - position >= LogRecord.frameSize else { return nil }
        let rest = buffer.span.extracting(position..<buffer.count)
        let frame = LogRecord.frame(rest)
        let size = LogRecord.frameSize + frame.payloadSize
        guard size <= rest.count else { return nil }
        // This process wrote the record: if it is invalid now, the device has lost it.
        guard LogRecord.isIntact(rest.extracting(0..<size), checksum: checksum) else {
            throw FileSystemError(.read, .ioError, path: .logName)
        }
        return frame
    }

    private mutating func adoptLarge(from start: Int, at offset: Int64, of log: LogFile) throws(FileSystemError) -> Int
    {
        let size =
            buffer.count - start < LogRecord.frameSize
            ? 0
            : LogRecord.frameSize + LogRecord.frame(buffer.span.extracting(start..<buffer.count)).payloadSize
        buffer.removeLast(buffer.count - start)
        buffer += try log.fileSystem.readBytes(of: log.descriptor, at: offset, count: size)
        let taken = try adopt(from: start, log.header.fileID.checksum)
        guard taken > 0 else { throw FileSystemError(.read, .ioError, path: .logName) }
        return taken
    }

    private mutating func append(
        _ code: LogRecord.Code, _ name: Span<UInt8>, _ value: Span<UInt8>, sequence number: UInt64
    ) throws(FileSystemError) {
        LogRecord.append(
            code, flags: LogRecord.retainedFlag, name, value, sequence: number, checksum: checksum, to: &buffer)
        sequence = number
        endsFlushed = code == .flushed
        if buffer.count >= Self.bufferSize { try write() }
    }

    /// Writes the added records to the file.
    private mutating func write() throws(FileSystemError) {
        guard !buffer.isEmpty else { return }
        try file.fileSystem.writeBytes(buffer, to: file.descriptor)
        end += Int64(buffer.count)
        buffer.removeAll(keepingCapacity: true)
    }

    /// Makes all added records durable.
    mutating func synchronize() throws(FileSystemError) {
        try write()
        try file.fileSystem.synchronize(file.descriptor, .full)
        synchronizedSequence = sequence
    }

    /// Reserves space after the written records, so that the first writes to the new log need not wait for it. A
    /// failure is left to the write that needs the space.
    mutating func reserve(_ options: LogSpace.Options) {
        var space = LogSpace(options)
        do throws(FileSystemError) {
            _ = try space.reserve(1, at: end, of: file)
            self.space = space
        } catch _ {}
    }

    /// Renames the log into place, without waiting for the device.
    ///
    /// - Returns: The log, whose name is not yet known to be durable.
    mutating func moveIntoPlace(_ space: LogSpace.Options) throws(FileSystemError) -> AppendLog {
        try write()
        try file.fileSystem.rename(name, at: directory, to: .logName, at: directory, .replacing)
        return AppendLog(
            file, end: end, sequence: sequence, flushedSequence: synchronizedSequence, endsFlushed: endsFlushed,
            space: self.space ?? LogSpace(space))
    }

    /// Removes the new log.
    consuming func discard() {
        // The original failure is reported; the next opening of the store removes leftovers.
        do { try file.fileSystem.unlink(name, at: directory) } catch _ {}
    }
}

/// Writes the log of a new store, for a copy of one: without a table, so that the copy needs no memory for what is
/// written already.
package struct LogCopy: ~Copyable {
    private var log: AppendLog
    private let directory: Descriptor
    private let fileSystem: any POSIXFileSystem
    private let name: String

    /// Creates the log in an existing directory.
    ///
    /// - Throws: ``KVStoreError``.
    package init(
        in directory: POSIXPath, fileSystem: any POSIXFileSystem = SystemFileSystem()
    ) throws(KVStoreError) {
        name = String(directory)
        self.fileSystem = fileSystem
        do throws(FileSystemError) {
            let descriptor = try fileSystem.open(directory, .readOnly, options: [.directory])
            do throws(FileSystemError) {
                let header = LogHeader(fileID: LogFileID(random: fileSystem.randomBits), generation: 1)
                var new = try LogReplacement(header, at: descriptor, on: fileSystem)
                log = try new.moveIntoPlace(LogSpace.Options(isMapped: false))
            } catch {
                fileSystem.discard(descriptor)
                throw error
            }
            self.directory = descriptor
        } catch {
            throw KVStoreError(error, .open, store: name)
        }
    }

    deinit { fileSystem.discard(directory) }

    /// Adds the changes of a batch as one record.
    ///
    /// - Throws: ``KVStoreError``; the log is as it was.
    package mutating func append(_ batch: KVBatch) throws(KVStoreError) {
        let prepared = try PreparedBatch(batch, valueLimit: .max, store: name)
        do throws(FileSystemError) {
            if let change = prepared.onlyChange {
                try unsafe change.name.withBytes { (name) throws(FileSystemError) in
                    try unsafe (change.bytes ?? []).withBytes { (bytes) throws(FileSystemError) in
                        _ = try unsafe log.append(change.bytes == nil ? .remove : .set, name, bytes)
                    }
                }
            } else if prepared.count > 0 {
                try unsafe prepared.content.withBytes { (content) throws(FileSystemError) in
                    _ = try unsafe log.append(.batch, .empty, content, count: prepared.count)
                }
            }
        } catch {
            throw KVStoreError(error, .batch, store: name)
        }
    }

    /// Ends the log as a closed store leaves it, durably.
    ///
    /// - Throws: ``KVStoreError``.
    package mutating func finish() throws(KVStoreError) {
        do throws(FileSystemError) {
            let flush = log.startFlush(directory: directory)
            try flush.run()
            log.didFlush(flush)
            if !log.endsFlushed { _ = try log.append(.flushed) }
            try log.trim()
            try fileSystem.synchronize(log.file.descriptor, .full)
        } catch {
            throw KVStoreError(error, .synchronize, store: name)
        }
    }
}
