import CForgeKVStore
import Synchronization

// Memory safety: There is one writer at a time. Memory from the pool and the arena is filled before it is published,
// and retired, not freed, when it is replaced. Pool and arena live as long as the table that holds them.

/// The only type that changes a table. The caller serializes its use by a lock.
@safe
struct TableWriter: ~Copyable, Sendable {
    let table: ValueTable

    /// Memory of the table, which keeps it alive; unmanaged, so that an insertion counts no references.
    private let pool: Unmanaged<EntryPool>
    let arena: Unmanaged<ValueArena>
    private var reclamation: DeferredReclamation

    /// The number of slots in use, including entries whose value was removed.
    private var usedCount = 0

    /// The number of arrays so far, including this one.
    private var arrayNumber: UInt64 = 1

    /// The number of keys with a value.
    private(set) var count = 0

    /// The scans that want the values which are replaced meanwhile.
    private var scans: [TableScan] = []

    /// The size of a compacted log, without its header.
    private(set) var liveBytes: Int64 = 0

    init(_ table: ValueTable) {
        self.table = table
        unsafe pool = .passUnretained(table.pool)
        unsafe arena = .passUnretained(table.arena)
        reclamation = DeferredReclamation(table.pool)
    }

    /// The entry of a name; valid until the table is changed.
    @inline(__always)
    func entry(of name: KeyName) -> KeyEntry? { table.view.array.find(name) }

    /// Stores a value under a name.
    mutating func store(_ cell: consuming ValueCell, _ name: KeyName) {
        store(EntryContent(cell), name, in: entry(of: name))
    }

    /// Stores a value under a name whose entry was looked up since the last change of the table.
    @inline(__always)
    mutating func store(_ content: EntryContent, _ name: KeyName, in entry: KeyEntry?) {
        if let entry {
            replace(entry, by: content)
        } else {
            unsafe name.withBytes { unsafe insert(content, $0, hash: name.hash) }
        }
    }

    @inline(never)
    mutating func insert(_ content: EntryContent, _ name: UnsafeRawBufferPointer, hash: UInt64) {
        makeRoom()
        let memory = unsafe pool._withUnsafeGuaranteedRef { unsafe $0.take(KeyEntry.size(nameCount: name.count)) }
        let entry = unsafe KeyEntry(name, content, at: memory)
        table.view.array.insert(entry, hash: hash)
        if !scans.isEmpty { for scan in scans { scan.passOver(entry) } }
        usedCount += 1
        count += 1
        liveBytes += Int64(LogRecord.size(nameCount: name.count, valueSize: content.encodedSize))
    }

    /// Removes the value of a name.
    mutating func remove(_ name: KeyName) {
        if let entry = entry(of: name) { replace(entry, by: .empty) }
    }

    mutating func removeAll() {
        let old = table.view.exchange(SlotArray(exponent: 4))
        arrayNumber += 1
        old.forEach { entry in
            if !scans.isEmpty { keepForScans(entry) }
            reclamation.retire(entry.exchange(.empty))
            reclamation.retire(entry)
        }
        unsafe reclamation.retire(old.address, sizeInBytes: old.sizeInBytes)
        unsafe table.arena.takeSlabs().forEach { unsafe reclamation.retire($0.address, sizeInBytes: $0.size) }
        usedCount = 0
        count = 0
        liveBytes = 0
    }

    @inline(__always)
    mutating func replace(_ entry: KeyEntry, by content: EntryContent) {
        if !scans.isEmpty { keepForScans(entry) }
        let old = entry.exchange(content)
        if old.kind != EntryContent.emptyKind {
            liveBytes -= Int64(LogRecord.size(nameCount: entry.nameCount, valueSize: old.encodedSize))
            reclamation.retire(old)
        } else {
            count += 1
        }
        if content.kind == EntryContent.emptyKind {
            count -= 1
        } else {
            liveBytes += Int64(LogRecord.size(nameCount: entry.nameCount, valueSize: content.encodedSize))
        }
    }

    /// Replaces a value by its decoded form, unless another value has been stored since.
    mutating func replace(_ old: ValueCell, by decoded: EntryContent, _ name: KeyName) {
        guard let entry = entry(of: name), Self.holds(entry.content, old) else {
            // No reader has seen the decoded value, but it goes the same way.
            return reclamation.retire(decoded)
        }
        reclamation.retire(entry.exchange(decoded))
    }

    /// Whether an entry still holds the encoded value of a cell.
    private static func holds(_ content: EntryContent, _ cell: ValueCell) -> Bool {
        unsafe content.kind == EntryContent.encoded
            ? content.revision == cell.revision : content.ownCell?.takeUnretainedValue() === cell
    }

    @inline(never)
    private func keepForScans(_ entry: KeyEntry) {
        for scan in scans { scan.keep(entry) }
    }

    /// Keeps at least a third of the slots empty.
    private mutating func makeRoom() {
        if (usedCount + 1) * 3 > table.view.array.count * 2 { resize(for: count + 1) }
    }

    /// Moves the entries to another array, with room for `expectedCount` names.
    @inline(never)
    mutating func resize(for expectedCount: Int) {
        let old = table.view.array
        let larger = SlotArray(exponent: Self.exponent(for: expectedCount))
        usedCount = 0
        old.forEach { entry in
            // Entries without a value are dropped: a table with as many removals as additions does not grow.
            guard entry.kind != EntryContent.emptyKind else { return reclamation.retire(entry) }
            larger.insert(entry, hash: entry.hash)
            usedCount += 1
        }
        _ = table.view.exchange(larger)
        arrayNumber += 1
        unsafe reclamation.retire(old.address, sizeInBytes: old.sizeInBytes)
    }

    /// The exponent of the slot count for `count` names: they fill at most two fifths, so a table that was two thirds
    /// full doubles.
    private static func exponent(for count: Int) -> Int {
        var exponent = 4
        while 2 << exponent < count * 5 { exponent += 1 }
        return exponent
    }

    /// Whether a grace-period check is due.
    @inline(__always)
    var hasGarbage: Bool { reclamation.isDue }

    /// Retired memory that no reader can see any more, for the caller to release outside the lock.
    mutating func collectGarbage() -> DeferredReclamation.Garbage? {
        reclamation.isDue ? reclamation.collect() : nil
    }
}

// MARK: Reading

extension TableWriter {
    /// The revision of the value of a name; nil if there is none.
    func revision(of name: KeyName) -> UInt64? {
        guard let content = entry(of: name)?.content, content.kind != EntryContent.emptyKind else { return nil }
        return content.revision
    }

    var names: [String] {
        var names: [String] = []
        names.reserveCapacity(count)
        table.view.array.forEach { entry in
            if entry.kind != EntryContent.emptyKind { names.append(entry.name.string) }
        }
        return names
    }

    /// Begins a scan, which keeps every value that is replaced until ``end(_:)``.
    mutating func begin(_ scan: TableScan) { scans.append(scan) }

    mutating func end(_ scan: TableScan) { scans.removeAll { $0 === scan } }

    /// The present slots, and a number that tells them from those before and after.
    var slots: (array: SlotArray, number: UInt64) { (table.view.array, arrayNumber) }

    /// All names and values at once.
    var collected: CollectedValues {
        var collected = CollectedValues()
        table.view.array.forEach { collected.append($0) }
        return collected
    }

    /// All names and values, in the order of their revisions.
    ///
    /// - Complexity: O(*n* log *n*)
    var contents: [(name: KeyName, cell: ValueCell)] {
        var contents: [(name: KeyName, cell: ValueCell)] = []
        contents.reserveCapacity(count)
        table.view.array.forEach { entry in
            if let cell = entry.content.asCell { contents.append((entry.name, cell)) }
        }
        return contents.sorted { $0.cell.revision < $1.cell.revision }
    }
}

/// Bulk loading without an object for each value: from a log, before there are readers, or from a list, beside readers.
extension TableWriter {
    /// The change of one name in a record of a log, as places in the bytes that it was read from.
    struct LoadedChange {
        fileprivate let name: Range<Int>
        /// Nil for a removal.
        fileprivate let value: Range<Int>?
        fileprivate let revision: UInt64
        fileprivate let hash: UInt64

        /// A change in the record at an offset of bytes.
        @inline(__always)
        init(_ change: LogRecord.Change, at offset: Int, of bytes: Span<UInt8>, _ revision: UInt64) {
            name = change.name.lowerBound &+ offset..<change.name.upperBound &+ offset
            value = change.value.map { $0.lowerBound &+ offset..<$0.upperBound &+ offset }
            self.revision = revision
            hash = unsafe bytes.extracting(name).withUnsafeBytes { unsafe KeyHash.hash($0) }
        }
    }

    /// Begins to fetch the slot of a change's name, whose place in memory is arbitrary.
    @inline(__always)
    func prefetching(_ change: LoadedChange) -> LoadedChange {
        unsafe forge_prefetch(table.view.array.slotAddress(hash: change.hash))
        return change
    }

    /// Applies changes in order.
    mutating func load(_ changes: [LoadedChange], of bytes: Span<UInt8>) {
        unsafe bytes.withUnsafeBytes { bytes in
            for change in changes {
                let name = unsafe UnsafeRawBufferPointer(rebasing: bytes[change.name])
                if let value = change.value {
                    unsafe load(UnsafeRawBufferPointer(rebasing: bytes[value]), name, change)
                } else {
                    unsafe unload(name, change)
                }
            }
        }
        if hasGarbage { _ = collectGarbage() }
    }

    @inline(__always)
    private mutating func load(
        _ value: UnsafeRawBufferPointer, _ name: UnsafeRawBufferPointer, _ change: LoadedChange
    ) {
        guard value.count <= ValueArena.maximumValueSize else {
            return unsafe store(
                EncodedCell(Array(value), revision: change.revision), KeyName(String(decoding: name, as: UTF8.self)))
        }
        guard let entry = unsafe table.view.array.find(name, hash: change.hash) else {
            return unsafe insert(
                EntryContent(encoded: copy(value), count: value.count, revision: change.revision), name,
                hash: change.hash)
        }
        unsafe overwrite(entry, value, change.revision)
    }

    @inline(__always)
    private func copy(_ value: UnsafeRawBufferPointer) -> UnsafeMutableRawPointer {
        unsafe arena._withUnsafeGuaranteedRef { unsafe $0.copy(value) }
    }

    @inline(never)
    private mutating func overwrite(_ entry: KeyEntry, _ value: UnsafeRawBufferPointer, _ revision: UInt64) {
        let old = entry.content
        // The place of the old value is used again if it is large enough: there are no readers yet.
        if old.kind == EntryContent.encoded, old.encodedCapacity >= value.count, let place = unsafe old.encodedAddress {
            unsafe UnsafeMutableRawBufferPointer(start: place, count: value.count).copyMemory(from: value)
            replace(entry, by: old.reusingPlace(count: value.count, revision: revision))
        } else {
            unsafe replace(entry, by: EntryContent(encoded: copy(value), count: value.count, revision: revision))
        }
    }

    @inline(never)
    private mutating func unload(_ name: UnsafeRawBufferPointer, _ change: LoadedChange) {
        if let entry = unsafe table.view.array.find(name, hash: change.hash) { replace(entry, by: .empty) }
    }

    /// Stores a value in the arena, like loading, but safe beside readers: the bytes of an old value are not
    /// overwritten.
    mutating func store(_ value: [UInt8], revision: UInt64, named name: String) {
        var name = name
        name.withUTF8 { name in
            unsafe value.withUnsafeBytes {
                unsafe store($0, revision: revision, named: UnsafeRawBufferPointer(name))
            }
        }
    }

    private mutating func store(_ value: UnsafeRawBufferPointer, revision: UInt64, named name: UnsafeRawBufferPointer) {
        let hash = unsafe KeyHash.hash(name)
        let content =
            unsafe value.count <= ValueArena.maximumValueSize
            ? EntryContent(encoded: copy(value), count: value.count, revision: revision)
            : EntryContent(EncodedCell(Array(value), revision: revision))
        if let entry = unsafe table.view.array.find(name, hash: hash) {
            replace(entry, by: content)
        } else {
            unsafe insert(content, name, hash: hash)
        }
    }

    /// Makes room for as many names at once, so that loading them does not double the table again and again.
    mutating func reserve(_ expectedCount: Int) {
        if expectedCount * 3 > table.view.array.count * 2 { resize(for: expectedCount) }
    }
}
