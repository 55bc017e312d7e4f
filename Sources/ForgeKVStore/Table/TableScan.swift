import ForgeCoding
import Foundation

/// A list of the names or values of a table as they are at one moment, collected in pieces beside its writer.
///
/// Each piece looks at a few slots under the writer's lock. What the writer replaces or removes between the first piece
/// and the last, it adds itself, once for each entry, and the later pieces pass over the entries that it has changed. A
/// value that was collected and then replaced is therefore found twice.
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
    private var changed: Set<UnsafeMutableRawPointer> = []

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
            guard entry.revision <= revision, changed.isEmpty || !changed.contains(entry.address),
                slice?.contains(entry.nameBytes) ?? true
            else { return }
            found.append(entry, withValue: withValues)
        }
        position = end
        return end < array.count
    }

    /// Called by the writer before it changes an entry.
    func keep(_ entry: KeyEntry) {
        if changed.insert(entry.address).inserted { replaced.append(entry, withValue: withValues) }
    }

    /// Called by the writer after it has added an entry.
    func passOver(_ entry: KeyEntry) { changed.insert(entry.address) }

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
            names.filter { $0.utf8.withContiguousStorageIfAvailable { slice.contains(.init($0)) } ?? true }
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

    /// The values by name.
    var snapshot: KVSnapshot {
        var entries: [KeyName: KVEntry] = [:]
        entries.reserveCapacity(found.count + replaced.count)
        found.forEachEntry { name, entry in entries[KeyName(name)] = entry }
        replaced.forEachEntry { name, entry in entries[KeyName(name)] = entry }
        return KVSnapshot(entries)
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
        if let previous, !previous.withUnsafeBytes({ $0.precedes(name) }) { return false }
        if let last, last.withUnsafeBytes({ $0.precedes(name) }) { return false }
        return true
    }
}

extension UnsafeRawBufferPointer {
    /// Whether these bytes come before others.
    fileprivate func precedes(_ other: UnsafeRawBufferPointer) -> Bool {
        guard let bytes = baseAddress, let others = other.baseAddress else { return isEmpty && !other.isEmpty }
        let order = memcmp(bytes, others, Swift.min(count, other.count))
        return order == 0 ? count < other.count : order < 0
    }
}

/// Names and values of a table. Short values are copied as bytes, because an object for each would take most of the time
/// of a compaction.
struct CollectedValues: ~Copyable {
    private struct Item {
        var revision: UInt64

        /// Where the name begins in `bytes`; the value follows unless it is in the cell.
        var offset: Int
        var nameCount: Int
        var valueCount: Int
        var cell: ValueCell?
    }

    private var items: [Item] = []
    private var bytes: [UInt8] = []
    private var encoder = PlainEncoder()

    /// Longer values are not copied.
    private static let maximumCopiedSize = ValueArena.maximumValueSize

    var count: Int { items.count }

    /// Adds the name and value of an entry, if there is a value. For the writer.
    mutating func append(_ entry: KeyEntry, withValue: Bool = true) {
        let content = entry.content
        guard content.kind != EntryContent.emptyKind else { return }
        let offset = bytes.count
        bytes.append(contentsOf: entry.nameBytes)
        var kept: ValueCell?
        if !withValue {
            // Only the name and the revision are wanted.
        } else if content.kind == EntryContent.encoded {
            bytes.append(contentsOf: content.encodedBytes)
        } else if let cell = content.ownCell?.takeUnretainedValue() {
            if cell.encodedSize > Self.maximumCopiedSize { kept = cell } else { bytes.append(contentsOf: cell.bytes) }
        } else {
            bytes.append(contentsOf: InlineTypes.encode(content, by: &encoder))
        }
        items.append(
            Item(
                revision: content.revision, offset: offset, nameCount: entry.nameCount,
                valueCount: bytes.count - offset - entry.nameCount, cell: kept))
    }

    /// Leaves the first names in the order of their bytes, without values; returns the last of them.
    mutating func keepFirst(_ count: Int) -> [UInt8]? {
        let all = bytes
        all.withUnsafeBytes { bytes in
            func name(_ item: Item) -> UnsafeRawBufferPointer {
                UnsafeRawBufferPointer(rebasing: bytes[item.offset..<item.offset + item.nameCount])
            }
            items.sort { name($0).precedes(name($1)) }
        }
        items.removeLast(max(0, items.count - count))
        var kept: [UInt8] = []
        kept.reserveCapacity(all.count)
        for index in items.indices {
            let item = items[index]
            items[index].offset = kept.count
            items[index].valueCount = 0
            kept += all[item.offset..<item.offset + item.nameCount]
        }
        bytes = kept
        return items.last.map { Array(kept[$0.offset..<$0.offset + $0.nameCount]) }
    }

    mutating func removeAll() {
        items.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: true)
    }

    /// Makes room for so many more names of usual length, so that adding them allocates nothing.
    mutating func reserve(_ count: Int) {
        if items.capacity - items.count < count { items.reserveCapacity(max(2 * items.count, items.count + count)) }
        let size = 256 * count
        if bytes.capacity - bytes.count < size { bytes.reserveCapacity(max(2 * bytes.count, bytes.count + size)) }
    }

    /// Calls `body` with every name, in the order of adding.
    func forEachName(_ body: (String) -> Void) {
        bytes.withUnsafeBytes { bytes in
            for item in items {
                body(String(decoding: bytes[item.offset..<item.offset + item.nameCount], as: UTF8.self))
            }
        }
    }

    /// Calls `body` with every name and its entry, in the order of adding.
    func forEachEntry(_ body: (String, KVEntry) -> Void) {
        bytes.withUnsafeBytes { bytes in
            for item in items {
                let start = item.offset + item.nameCount
                let value = item.cell?.bytes ?? Array(bytes[start..<start + item.valueCount])
                body(
                    String(decoding: bytes[item.offset..<start], as: UTF8.self),
                    KVEntry(bytes: value, revision: item.revision))
            }
        }
    }

    /// Calls `body` with every name, value and revision, in ascending order of the revisions.
    ///
    /// - Complexity: O(*n* log *n*)
    mutating func forEach<Failure>(
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, UInt64) throws(Failure) -> Void
    ) throws(Failure) {
        items.sort { $0.revision < $1.revision }
        try bytes.withBytes { (bytes) throws(Failure) in
            for item in items {
                let name = UnsafeRawBufferPointer(rebasing: bytes[item.offset..<item.offset + item.nameCount])
                guard let cell = item.cell else {
                    let start = item.offset + item.nameCount
                    let value = UnsafeRawBufferPointer(rebasing: bytes[start..<start + item.valueCount])
                    try body(name, value, item.revision)
                    continue
                }
                try cell.bytes.withBytes { (value) throws(Failure) in try body(name, value, item.revision) }
            }
        }
    }
}
