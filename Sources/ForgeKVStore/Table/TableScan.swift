import ForgeCoding
import Foundation

// Memory safety: The bytes of an entry are copied under the writer's lock, which keeps the entry. A record lies in one
// block as a whole, and begins with the lengths of its parts.

/// A list of the names or values of a table as they are at one moment, collected in pieces beside its writer.
///
/// Each piece looks at a few slots under the writer's lock. The writer itself adds each entry that it replaces or removes
/// between the first piece and the last, once, and the later pieces pass over the entries that it has changed. A value
/// that was collected and then replaced is therefore found twice.
final class TableScan: @unchecked Sendable {
    // Invariant of the unchecked conformance: it is used under the writer's lock until it has ended, except for making
    // room in `found`, which only the scanning thread uses; afterwards by that thread alone.

    private let withValues: Bool

    /// The highest revision that is wanted.
    private let revision: UInt64

    /// The names that are wanted; nil for all.
    private var slice: NameSlice?

    private var found = CollectedValues()
    private var replaced = CollectedValues()

    /// The entries that the writer has changed or added since the scan began.
    private var changed: Set<UInt> = []

    /// The number of the slots that the position is in; 0 before the first piece.
    private var slots: UInt64 = 0
    private var position = 0

    /// How many slots a piece looks at.
    private static let pieceCount = 512

    private init(withValues: Bool, upTo revision: UInt64 = .max, slice: NameSlice? = nil) {
        self.withValues = withValues
        self.revision = revision
        self.slice = slice
    }

    /// Collects the names of a table, and the values if wanted, as they are at one moment during the call. `withTable`
    /// calls its argument under the writer's lock.
    static func collect(
        withValues: Bool, slice: NameSlice? = nil, _ withTable: ((inout TableWriter) -> Bool) -> Bool
    ) -> TableScan {
        let scan = TableScan(withValues: withValues, slice: slice)
        var hasBegun = false
        repeat {
            scan.removeBeyondSlice()
            scan.found.reserve(pieceCount)
        } while withTable { table in
            if !hasBegun { table.begin(scan) }
            hasBegun = true
            let isLeft = scan.look(at: table)
            if !isLeft { table.end(scan) }
            return isLeft
        }
        return scan
    }

    /// Collects the values of a table up to a revision, without those that are replaced during the call.
    static func values(
        upTo revision: UInt64, _ withTable: ((borrowing TableWriter) -> Bool) -> Bool
    ) -> CollectedValues {
        let scan = TableScan(withValues: true, upTo: revision)
        repeat {
            scan.found.reserve(pieceCount)
        } while withTable { scan.look(at: $0) }
        var values = CollectedValues()
        swap(&values, &scan.found)
        return values
    }

    /// Looks at the next slots; returns whether some are left. If the slots were replaced meanwhile, it begins again.
    private func look(at table: borrowing TableWriter) -> Bool {
        let (array, number) = table.slots
        if slots != number {
            (slots, position) = (number, 0)
            found.removeAll()
            slice?.last = nil
        }
        let end = min(position + Self.pieceCount, array.count)
        array.forEach(in: position..<end) { entry in
            guard entry.revision <= revision, changed.isEmpty || !changed.contains(entry.identity),
                unsafe slice?.contains(entry.nameBytes) ?? true
            else { return }
            found.append(entry, withValue: withValues)
        }
        position = end
        return end < array.count
    }

    /// Called by the writer before it changes an entry.
    func keep(_ entry: KeyEntry) {
        if changed.insert(entry.identity).inserted { replaced.append(entry, withValue: withValues) }
    }

    /// Called by the writer after it has added an entry.
    func passOver(_ entry: KeyEntry) { changed.insert(entry.identity) }

    /// Leaves as few names as are wanted, once there are twice as many.
    private func removeBeyondSlice() {
        guard let slice, found.count >= 2 * slice.limit else { return }
        self.slice?.last = found.keepFirst(slice.limit)
    }

    /// The names of the slice, in the order of their bytes.
    var sortedNames: [String] {
        guard let slice else { return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }
        // The names that the writer has replaced are those of the whole table.
        return Array(
            names.filter {
                unsafe $0.utf8.withContiguousStorageIfAvailable { unsafe slice.contains(.init($0)) } ?? true
            }
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.prefix(slice.limit))
    }

    /// The names.
    var names: [String] {
        var names: [String] = []
        names.reserveCapacity(found.count + replaced.count)
        replaced.forEachName { names.append($0) }
        let present = Set(names.lazy.map(KeyName.init))
        found.forEachName { if present.isEmpty || !present.contains(KeyName($0)) { names.append($0) } }
        return names
    }

    /// The values by name, which this scan no longer has then.
    func takeSnapshot() -> KVSnapshot {
        var values = CollectedValues()
        swap(&values, &found)
        values.append(replaced)
        return KVSnapshot(values)
    }
}

/// Some of the names of a table: the first ones, in the order of their bytes, after a name.
struct NameSlice {
    /// The name before the first one; nil to begin with the first of all.
    let previous: [UInt8]?

    /// The most names.
    let limit: Int

    /// The last name that can be one of them, as far as is known.
    fileprivate(set) var last: [UInt8]?

    init(after previous: String?, limit: Int) {
        self.previous = previous.map { Array($0.utf8) }
        self.limit = max(1, limit)
    }

    func contains(_ name: UnsafeRawBufferPointer) -> Bool {
        if let previous, unsafe !previous.withUnsafeBytes({ unsafe $0.precedes(name) }) { return false }
        if let last, unsafe last.withUnsafeBytes({ unsafe $0.precedes(name) }) { return false }
        return true
    }
}

extension UnsafeRawBufferPointer {
    /// Whether these bytes come before others.
    fileprivate func precedes(_ other: UnsafeRawBufferPointer) -> Bool {
        guard let bytes = baseAddress, let others = other.baseAddress else { return unsafe isEmpty && !other.isEmpty }
        let order = unsafe memcmp(bytes, others, Swift.min(count, other.count))
        return order == 0 ? count < other.count : order < 0
    }
}

/// Names and values of a table, in the order of adding. Short values are copied as bytes, because an object for each would
/// take most of the time and memory of a snapshot or a compaction.
///
/// Each is a record in one of some blocks of bytes: its revision, two lengths, its name and its value. A block is never
/// moved once it has records, so that adding one takes as long for many as for few.
struct CollectedValues: ~Copyable, Sendable {
    /// Where a record is: the number of its block, and its offset there.
    struct Place: Equatable {
        fileprivate var block: Int
        fileprivate var offset: Int

        /// How many bits ``word`` has.
        static let bits = 44

        fileprivate init(block: Int, offset: Int) { (self.block, self.offset) = (block, offset) }

        init(word: UInt64) {
            self.init(block: Int(word >> 20), offset: Int(word & (1 << 20 - 1)))
        }

        /// The place as a number. A block that is longer has one record, at its beginning.
        var word: UInt64 { UInt64(block) << 20 | UInt64(offset) }
    }

    /// A record without its bytes.
    struct Record {
        let place: Place
        let revision: UInt64
        fileprivate let nameCount: Int
        fileprivate let valueWord: UInt32

        /// The number of bytes after the name.
        fileprivate var valueCount: Int { valueWord & CollectedValues.cellFlag == 0 ? Int(valueWord) : 0 }
    }

    /// Revision, length of the name, and length of the value or, with ``cellFlag``, the number of its cell.
    private static let headerSize = 16
    private static let cellFlag: UInt32 = 1 << 31

    /// The size of the blocks of a large table; a longer record has a block of its own.
    private static let blockSize = 1 << 20

    private var blocks: [[UInt8]] = []
    private var cells: [ValueCell] = []
    private var encoder = PlainEncoder()

    /// The number of records.
    private(set) var count = 0

    /// Longer values are not copied.
    private static let maximumCopiedSize = ValueArena.maximumValueSize
}

// MARK: Adding

extension CollectedValues {
    /// Adds the name and value of an entry, if there is a value. For the writer.
    mutating func append(_ entry: KeyEntry, withValue: Bool = true) {
        let content = entry.content
        guard content.kind != EntryContent.emptyKind else { return }
        if !withValue {
            unsafe append(entry.nameBytes, .empty, content.revision)
        } else if content.kind == EntryContent.encoded {
            unsafe append(entry.nameBytes, content.encodedBytes, content.revision)
        } else if let cell = unsafe content.ownCell?.takeUnretainedValue() {
            unsafe append(entry.nameBytes, cell)
        } else {
            unsafe append(entry.nameBytes, InlineTypes.encode(content, by: &encoder), content.revision)
        }
    }

    /// Adds a name and the value of a cell.
    mutating func append(_ name: UnsafeRawBufferPointer, _ cell: ValueCell) {
        if cell.encodedSize > Self.maximumCopiedSize {
            cells.append(cell)
            unsafe append(name, .empty, cell.revision, valueWord: Self.cellFlag | UInt32(cells.count - 1))
        } else {
            unsafe cell.bytes.withUnsafeBytes { unsafe append(name, $0, cell.revision) }
        }
    }

    /// Adds all that others have.
    mutating func append(_ others: borrowing CollectedValues) {
        var place = others.start
        while let record = others.record(at: place) {
            unsafe others.withBytes(of: record) { name, value in
                if let cell = others.cell(of: record) {
                    unsafe append(name, cell)
                } else {
                    unsafe append(name, value, record.revision)
                }
            }
            place = others.place(after: record)
        }
    }

    private mutating func append(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ revision: UInt64) {
        unsafe append(name, value, revision, valueWord: UInt32(value.count))
    }

    private mutating func append(
        _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ revision: UInt64, valueWord: UInt32
    ) {
        makeRoom(Self.headerSize + name.count + value.count)
        let last = blocks.count - 1
        unsafe withUnsafeBytes(of: (revision, UInt32(name.count), valueWord)) {
            unsafe blocks[last].append(contentsOf: $0)
        }
        unsafe blocks[last].append(contentsOf: name)
        unsafe blocks[last].append(contentsOf: value)
        count += 1
    }

    private mutating func makeRoom(_ size: Int) {
        if let last = blocks.last, last.count + size <= min(last.capacity, Self.blockSize) { return }
        var block: [UInt8] = []
        block.reserveCapacity(max(min(2 * (blocks.last?.capacity ?? 0), Self.blockSize), size))
        blocks.append(block)
    }

    /// Makes room for so many more names of usual length, so that adding them allocates nothing.
    mutating func reserve(_ count: Int) { makeRoom(256 * count) }

    /// Leaves the first names in the order of their bytes, without values; returns the last of them.
    ///
    /// - Complexity: O(*n* log *n*)
    mutating func keepFirst(_ count: Int) -> [UInt8]? {
        var records: [Record] = []
        records.reserveCapacity(self.count)
        forEachRecord { records.append($0) }
        records.sort { first, second in
            unsafe withBytes(of: first) { first, _ in
                unsafe withBytes(of: second) { second, _ in unsafe first.precedes(second) }
            }
        }
        var kept = CollectedValues()
        for record in records.prefix(count) {
            unsafe withBytes(of: record) { name, _ in unsafe kept.append(name, .empty, record.revision) }
        }
        let last = records.prefix(count).last.map { unsafe withBytes(of: $0) { name, _ in unsafe Array(name) } }
        self = kept
        return last
    }

    mutating func removeAll() {
        blocks.removeAll()
        cells.removeAll()
        count = 0
    }
}

// MARK: Reading

extension CollectedValues {
    /// Where the first record is.
    var start: Place { Place(block: 0, offset: 0) }

    /// The record at a place; nil after the last one.
    func record(at place: Place) -> Record? {
        var place = place
        while place.block < blocks.count, place.offset >= blocks[place.block].count {
            place = Place(block: place.block + 1, offset: 0)
        }
        guard place.block < blocks.count else { return nil }
        return unsafe blocks[place.block].withUnsafeBytes { bytes in
            unsafe Record(
                place: place, revision: bytes.loadUnaligned(fromByteOffset: place.offset, as: UInt64.self),
                nameCount: Int(bytes.loadUnaligned(fromByteOffset: place.offset + 8, as: UInt32.self)),
                valueWord: bytes.loadUnaligned(fromByteOffset: place.offset + 12, as: UInt32.self))
        }
    }

    func place(after record: Record) -> Place {
        let size = Self.headerSize + record.nameCount + record.valueCount
        return Place(block: record.place.block, offset: record.place.offset + size)
    }

    /// Calls `body` with the name and the value of a record; the value is empty if it is in a cell.
    func withBytes<Result, Failure: Error>(
        of record: Record,
        _ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe blocks[record.place.block].withBytes { (bytes) throws(Failure) in
            let start = record.place.offset + Self.headerSize
            let end = start + record.nameCount
            return try unsafe body(
                UnsafeRawBufferPointer(rebasing: bytes[start..<end]),
                UnsafeRawBufferPointer(rebasing: bytes[end..<end + record.valueCount]))
        }
    }

    /// The cell of a record; nil if its value was copied.
    private func cell(of record: Record) -> ValueCell? {
        record.valueWord & Self.cellFlag == 0 ? nil : cells[Int(record.valueWord & ~Self.cellFlag)]
    }

    func name(of record: Record) -> String {
        unsafe withBytes(of: record) { name, _ in unsafe String(decoding: name, as: UTF8.self) }
    }

    func entry(of record: Record) -> KVEntry {
        let bytes = unsafe cell(of: record)?.bytes ?? withBytes(of: record) { _, value in unsafe Array(value) }
        return KVEntry(bytes: bytes, revision: record.revision)
    }

    /// Calls `body` with every record, in the order of adding.
    private func forEachRecord(_ body: (Record) -> Void) {
        var place = start
        while let record = record(at: place) {
            body(record)
            place = self.place(after: record)
        }
    }

    /// Calls `body` with every name, in the order of adding.
    func forEachName(_ body: (String) -> Void) { forEachRecord { body(name(of: $0)) } }

    /// Calls `body` with every name, value and revision, in ascending order of the revisions.
    ///
    /// - Complexity: O(*n* log *n*)
    func forEach<Failure>(
        _ body: (Span<UInt8>, Span<UInt8>, UInt64) throws(Failure) -> Void
    ) throws(Failure) {
        var order: [(revision: UInt64, place: Place)] = []
        order.reserveCapacity(count)
        forEachRecord { order.append(($0.revision, $0.place)) }
        order.sort { $0.revision < $1.revision }
        for (_, place) in order {
            guard let record = record(at: place) else { continue }
            let block = blocks[record.place.block]
            let start = record.place.offset + Self.headerSize
            let end = start + record.nameCount
            let name = block.span.extracting(start..<end)
            if let cell = cell(of: record) {
                let value = cell.bytes
                try body(name, value.span, record.revision)
            } else {
                try body(name, block.span.extracting(end..<end + record.valueCount), record.revision)
            }
        }
    }
}
