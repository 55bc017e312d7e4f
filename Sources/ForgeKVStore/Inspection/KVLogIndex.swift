package import ForgeFileSystem
import SystemPackage

/// The names, revisions and places of values in the log of a store that another process may be writing.
///
/// Takes no lock, opens no store and changes nothing. ``refresh()`` reads what was appended since the last call;
/// values stay in the file until ``bytes(of:limit:)`` reads them. Records are classified as an opening of the store
/// would classify them. No link below the root is followed.
package struct KVLogIndex: Sendable {
    /// A name with the place of its value.
    package struct Entry: Sendable {
        package var name: String
        package var revision: UInt64
        package var sizeInBytes: Int
        let offset: Int64
    }

    /// A change of the store.
    package struct Change: Sendable, Hashable {
        package enum Operation: String, Sendable { case set, remove, removeAll }

        package var operation: Operation
        /// Nil for `removeAll`.
        package var name: String?
        package var revision: UInt64

        package init(_ operation: Operation, _ name: String?, _ revision: UInt64) {
            (self.operation, self.name, self.revision) = (operation, name, revision)
        }
    }

    private let path: POSIXPath
    private let root: ConfinedDirectory
    var log: IndexedLog?

    /// Set while the log cannot be read.
    private var failure: Failure?

    private struct Failure {
        var error: FileSystemError
        var pause: ReadingPause
    }

    /// Raised by every refresh that finds a change.
    package private(set) var version: UInt64 = 0

    /// Creates the index of the store in a directory below another one; reads nothing yet.
    package init(of directory: POSIXPath, in root: ConfinedDirectory) {
        path = directory
        self.root = root
    }

    private var fileSystem: any POSIXFileSystem { root.fileSystem }

    /// Reads what has changed since the last call.
    ///
    /// - Returns: The changes in order; none at the first call. If the log was replaced, the differences.
    /// - Throws: ``KVStoreError``: `.noStore` if there is no log, `.unknownFormat`, `.damaged` if it has no readable
    ///   header, `.unavailable` if it cannot be read. The index keeps its content. Later calls retry after the log has
    ///   changed, otherwise with exponential back-off.
    /// - Complexity: O(*n*) in the appended bytes; in the whole log at first and if it was replaced.
    package mutating func refresh() throws(KVStoreError) -> [Change] {
        let store = String(path)
        do throws(FileSystemError) {
            let directory = try root.open(path)
            defer { root.fileSystem.discard(directory) }
            return try refresh(at: directory)
        } catch {
            if let cause = error.underlying as? KVStoreError { throw cause }
            throw error.errno == .noSuchFileOrDirectory
                ? KVStoreError(.noStore, .read, store: store, underlying: error)
                : KVStoreError(error, .read, store: store)
        }
    }

    private mutating func refresh(at directory: Descriptor) throws(FileSystemError) -> [Change] {
        let status = try fileSystem.status(.logName, at: directory, followsSymbolicLinks: false)
        // Moved out: a second reference would make the change copy the arrays.
        if try log?.isSame(status) ?? false {
            failure = nil
            let sequence = log?.sequence
            // Also if an error follows some changes.
            defer { if log?.sequence != sequence { version += 1 } }
            return try log?.follow(status) ?? []
        }
        if let error = failure?.error, failure?.pause.isOver(.init(status)) == false { throw error }
        do throws(FileSystemError) {
            let loaded = try load(at: directory)
            let changes = log.map { loaded.changes(since: $0) } ?? []
            (log, failure) = (loaded, nil)
            version += 1
            return changes
        } catch {
            let pause = ReadingPause(.init(status), sizeInBytes: status.sizeInBytes, after: failure?.pause)
            failure = Failure(error: error, pause: pause)
            throw error
        }
    }

    private func load(at directory: Descriptor) throws(FileSystemError) -> IndexedLog {
        let (descriptor, status) = try fileSystem.openRegularFile(.logName, at: directory)
        switch try IndexedLog.load(descriptor, status, on: fileSystem) {
        case .log(let log): return log
        case .unknownVersion(let version):
            let cause = KVStoreError(.unknownFormat(version: version), .read, store: String(path))
            throw FileSystemError(.read, .notSupported, underlying: cause)
        case .damaged:
            throw FileSystemError(
                .read, .ioError, underlying: KVStoreError(.damaged, .read, store: String(path)))
        }
    }
}

// MARK: Entries

extension KVLogIndex {
    /// The number of names with a value.
    package var count: Int { log?.names.count ?? 0 }

    /// The number of the last change.
    package var revision: UInt64 { log?.sequence ?? 0 }

    /// The place of a name's value; nil if it has none.
    package func entry(named name: String) -> Entry? {
        guard let slot = log?.names.slot(of: KeyName(name)) else { return nil }
        return Entry(name: name, revision: slot.revision, sizeInBytes: slot.valueSize, offset: slot.valueOffset)
    }

    /// The entry of a number from ``names(sortedBy:containing:)``.
    package func entry(numbered number: Int32) -> Entry? {
        guard let names = log?.names else { return nil }
        let slot = names.slots[Int(number)]
        return Entry(
            name: names.name(number), revision: slot.revision, sizeInBytes: slot.valueSize, offset: slot.valueOffset)
    }

    /// Up to `limit` bytes of a value; nil if the log was truncated since the last refresh.
    ///
    /// - Throws: ``KVStoreError`` if the file cannot be read.
    package func bytes(of entry: Entry, limit: Int) throws(KVStoreError) -> [UInt8]? {
        guard let log else { return nil }
        let count = min(entry.sizeInBytes, limit)
        do throws(FileSystemError) {
            let bytes = try fileSystem.readBytes(of: log.file.descriptor, at: entry.offset, count: count)
            return bytes.count == count ? bytes : nil
        } catch {
            throw KVStoreError(error, .read, key: entry.name, store: String(path))
        }
    }
}

extension KVLogIndex {
    /// The layout of a log: its sections, records and damage.
    package struct Map: Sendable {
        /// A section of the file.
        package struct Section: Sendable {
            /// The bytes of records and of damage between them.
            package var usedBytes: Int64 = 0
            /// The bytes of current values with their names.
            package var currentBytes: Int64 = 0
            package var isDamaged = false
        }

        package var sections: [Section]
        package var sectionSize: Int64
        package var sizeInBytes: Int64
        /// The end of the last record; what follows is reserved.
        package var end: Int64
        package var recordCount: Int
        package var currentBytes: Int64 = 0
        package var damage: [Range<Int64>]
        /// An unfinished record at the end.
        package var tail: Range<Int64>?
        package var isHeaderDamaged: Bool

        /// Adds the bytes of a range to the sections that it covers.
        fileprivate mutating func add(_ range: Range<Int64>, isCurrent: Bool) {
            var start = range.lowerBound
            while start < range.upperBound {
                let section = Int(start / sectionSize)
                guard section < sections.count else { return }
                let end = min(range.upperBound, (Int64(section) + 1) * sectionSize)
                if isCurrent {
                    sections[section].currentBytes += end - start
                } else {
                    sections[section].usedBytes += end - start
                }
                start = end
            }
        }
    }

    /// A record as the list of records shows it.
    package struct Record: Sendable {
        package var offset: Int64
        package var sizeInBytes: Int64
        package var operation: String
    }

    /// The map of the log in sections of equal size; nil before the first refresh.
    ///
    /// - Complexity: O(*n*) in the number of records.
    package func map(sectionCount: Int) -> Map? {
        guard let log else { return nil }
        let size = max(log.end, log.tail?.upperBound ?? 0, Int64(LogHeader.size))
        let sectionSize = max(1, (size + Int64(sectionCount) - 1) / Int64(max(sectionCount, 1)))
        var map = Map(
            sections: Array(repeating: .init(), count: Int((size + sectionSize - 1) / sectionSize)),
            sectionSize: sectionSize, sizeInBytes: log.sizeInBytes, end: log.end, recordCount: log.offsets.count,
            damage: log.damage, tail: log.tail, isHeaderDamaged: log.isHeaderDamaged)
        map.add(Int64(LogHeader.size)..<log.end, isCurrent: false)
        for slot in log.names.slots where slot.isPresent {
            let start = slot.valueOffset - Int64(slot.nameCount + LogRecord.payloadPrefixSize + LogRecord.frameSize)
            let range = max(start, 0)..<slot.valueOffset + Int64(slot.valueSize)
            map.add(range, isCurrent: true)
            map.currentBytes += Int64(range.count)
        }
        for range in log.damage + (log.tail.map { [$0] } ?? []) {
            let last = max(range.lowerBound, range.upperBound - 1) / sectionSize
            for section in range.lowerBound / sectionSize...last where section < map.sections.count {
                map.sections[Int(section)].isDamaged = true
            }
        }
        return map
    }

    /// The records from a position on, the first has position 0.
    package func records(from position: Int, limit: Int) -> [Record] {
        guard let log, position >= 0, position < log.offsets.count else { return [] }
        return (position..<min(position + limit, log.offsets.count)).map { index in
            let next = index + 1 < log.offsets.count ? log.offsets[index + 1] : log.end
            let gap = log.damage.first { $0.lowerBound > log.offsets[index] && $0.lowerBound < next }
            return Record(
                offset: log.offsets[index], sizeInBytes: (gap?.lowerBound ?? next) - log.offsets[index],
                operation: LogRecord.Code(rawValue: log.codes[index]).map { "\($0)" } ?? "unknown")
        }
    }
}

/// Schedules retries of reading a damaged log or record: soon after the file changes, otherwise with exponential
/// back-off.
///
/// A retry reads all the damaged bytes again. After a change it is delayed in proportion to their number, so that a
/// program that keeps touching a large file cannot keep the reader busy. Unchanged files are read again as well,
/// because a write through a memory mapping need not change the times of its file.
struct ReadingPause: Sendable {
    /// A fingerprint of the bytes that could not be read: a different one shows that they have changed.
    struct Evidence: Hashable, Sendable {
        var inode: UInt64
        var size: Int64
        var modified: FileTime
        var changed: FileTime
        /// The first damaged bytes.
        var beginning: [UInt8] = []

        init(_ status: FileStatus, beginning: [UInt8] = []) {
            (inode, size) = (status.inode, status.sizeInBytes)
            (modified, changed) = (status.modified, status.changed)
            self.beginning = beginning
        }
    }

    private let evidence: Evidence
    private let failureCount: Int
    private let sizeInBytes: Int64
    private var callCount = 0

    /// The longest pause, in calls: 13 seconds at five calls a second.
    static let limit = 64

    /// The number of damaged bytes for which a retry after a change waits one more call.
    static let bytesPerCall: Int64 = 1 << 24

    /// - Parameters:
    ///   - evidence: The fingerprint at the failure.
    ///   - sizeInBytes: The number of bytes that a retry reads.
    ///   - earlier: The pause of the failure before, if the damage begins at the same offset.
    init(_ evidence: Evidence, sizeInBytes: Int64, after earlier: ReadingPause?) {
        self.evidence = evidence
        self.sizeInBytes = sizeInBytes
        failureCount = min((earlier?.failureCount ?? 0) + 1, 32)
    }

    /// Counts a call. Returns whether this call should read again.
    mutating func isOver(_ now: Evidence) -> Bool {
        callCount += 1
        let unchanged = min(1 << (failureCount - 1), Self.limit)
        guard now != evidence else { return callCount >= unchanged }
        let changed = min(Int(sizeInBytes / Self.bytesPerCall), Self.limit)
        return callCount >= min(unchanged, 1 + changed)
    }
}
