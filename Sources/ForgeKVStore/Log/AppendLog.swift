import ForgeFileSystem
import SystemPackage

/// An open log to which records are appended, one write each, at an end that is known.
///
/// A record is kept through a kill of the process when `append` returns, and through a power cut after `flush`.
struct AppendLog {
    let fileSystem: any POSIXFileSystem
    let descriptor: Descriptor
    let header: LogHeader

    /// Where the next record goes.
    private(set) var end: Int64

    /// Whether something was appended that no flush has covered.
    private(set) var isDirty: Bool

    /// Whether a flush failed, so that nothing is acknowledged any more.
    private(set) var isPoisoned = false

    /// Whether part of a record that failed may stand behind the end, because the device was locked before it could be
    /// cut off; it has to go before anything is appended.
    private var hasTail = false

    private var sequence: UInt64

    /// The last record that is known to have reached the device.
    private var flushedSequence: UInt64
    private let checksum: CRC32C
    private var scratch: [UInt8] = []

    /// A log that ends at `end`.
    init(
        _ descriptor: Descriptor, header: LogHeader, end: Int64, sequence: UInt64, flushedSequence: UInt64,
        isDirty: Bool, on fileSystem: any POSIXFileSystem
    ) {
        self.fileSystem = fileSystem
        self.descriptor = descriptor
        self.header = header
        self.end = end
        self.sequence = sequence
        self.flushedSequence = flushedSequence
        self.isDirty = isDirty
        checksum = header.fileID.checksum
    }

    /// Appends a record.
    ///
    /// If it throws, the log is as it was, cut back to its old end; if that failed too, it is poisoned.
    mutating func append(_ change: LogRecord.Change) throws(FileSystemError) {
        guard sequence < LogRecord.maximumSequence else { throw FileSystemError(.write, .overflow) }
        if hasTail { try dropLockedTail() }
        scratch.removeAll(keepingCapacity: scratch.capacity <= 1 << 16)
        if sequence - flushedSequence > UInt32.max { try flush() }
        LogRecord.append(
            change, sequence: sequence + 1, unflushedCount: UInt32(sequence - flushedSequence), checksum: checksum,
            to: &scratch)
        do throws(FileSystemError) {
            try fileSystem.writeBytes(scratch, to: descriptor, at: end)
        } catch {
            cutBack()
            throw error
        }
        end += Int64(scratch.count)
        sequence += 1
        isDirty = true
    }

    /// Pushes all records to the device; if it throws, the log is poisoned.
    mutating func flush() throws(FileSystemError) {
        guard isDirty else { return }
        do throws(FileSystemError) {
            try fileSystem.synchronize(descriptor, .data)
        } catch {
            isPoisoned = true
            throw error
        }
        isDirty = false
        flushedSequence = sequence
    }

    /// Flushes, and says so in a record, without which damage to the last records could be taken for a torn tail.
    mutating func close() throws(FileSystemError) {
        guard isDirty, !isPoisoned else { return }
        try flush()
        try append(.flushed)
    }

    /// Removes what stands behind the end and makes sure that it never comes back.
    mutating func dropTail() throws(FileSystemError) {
        try fileSystem.truncate(.descriptor(descriptor), to: end)
        isDirty = true
        try flush()
    }

    private mutating func cutBack() {
        do throws(FileSystemError) {
            try dropTail()
        } catch {
            // The append's own failure is thrown; nothing may be written after a record that may be half there. A device
            // that is locked will be unlocked again, and lets the record be cut off then.
            if error.isLocked, !isPoisoned { hasTail = true } else { isPoisoned = true }
        }
    }

    /// Tries again what could not be done while the device was locked.
    private mutating func dropLockedTail() throws(FileSystemError) {
        do throws(FileSystemError) {
            try dropTail()
            hasTail = false
        } catch {
            if !error.isLocked { isPoisoned = true }
            throw error
        }
    }
}

extension AppendLog {
    /// Gives the log up: which file the next opening finds is not known.
    mutating func poison() {
        isPoisoned = true
    }
}
