/// The one who changes a table. It belongs behind the lock that makes writers come one after another.
struct TableWriter: ~Copyable, Sendable {
    private let table: ValueTable
    private var retirement = Retirement()

    /// How many slots lead to an entry, one without a value included.
    private var usedCount = 0

    /// How many arrays there have been, this one included.
    private var arrayNumber: UInt64 = 1

    /// How many keys have a value.
    private(set) var count = 0

    /// How long a log of nothing but the present values would be, its header left out.
    private(set) var liveBytes: Int64 = 0

    init(_ table: ValueTable) {
        self.table = table
    }

    /// Gives a name a value.
    @inline(__always)
    mutating func store(_ cell: consuming ValueCell, _ name: KeyName) {
        store(cell, name, in: entry(of: name))
    }

    /// The place of a name, until the table is changed.
    @inline(__always)
    func entry(of name: KeyName) -> KeyEntry? { table.view.array.find(name) }

    /// Gives a name a value whose place was looked up since the table was last changed.
    @inline(__always)
    mutating func store(_ cell: consuming ValueCell, _ name: KeyName, in entry: KeyEntry?) {
        let size = LogRecord.size(nameCount: name.count, valueSize: cell.encodedSize)
        liveBytes += Int64(size)
        store(Unmanaged.passRetained(cell), name, in: entry)
    }

    private mutating func store(_ cell: Unmanaged<ValueCell>, _ name: KeyName, in entry: KeyEntry?) {
        if let entry {
            replace(entry, by: cell)
        } else {
            makeRoom()
            let entry = KeyEntry(name)
            _ = entry.cell.pointee.exchange(cell)
            table.view.array.insert(entry)
            usedCount += 1
            count += 1
        }
    }

    /// Takes the value of a name away.
    mutating func remove(_ name: KeyName) {
        guard let entry = table.view.array.find(name) else { return }
        replace(entry, by: nil)
    }

    mutating func removeAll() {
        let empty = SlotArray(count: 16)
        retire(table.view.exchange(empty), keeping: nil)
        usedCount = 0
        count = 0
        liveBytes = 0
    }

    private mutating func replace(_ entry: KeyEntry, by cell: Unmanaged<ValueCell>?) {
        if cell != nil { count += 1 }
        guard let old = entry.cell.pointee.exchange(cell) else { return }
        count -= 1
        let encodedSize = old._withUnsafeGuaranteedRef(\.encodedSize)
        liveBytes -= Int64(LogRecord.size(nameCount: entry.nameCount, valueSize: encodedSize))
        retirement.retire(old, sizeInBytes: encodedSize + ValueCell.overhead)
    }

    /// Makes sure that at least a third of the slots is empty.
    private mutating func makeRoom() {
        let old = table.view.array
        guard (usedCount + 1) * 3 > old.count * 2 else { return }
        // Entries without a value are left behind: a table from which as much is removed as is added does not grow.
        let larger = SlotArray(count: Self.slotCount(for: count + 1))
        usedCount = 0
        old.forEach { entry in
            guard entry.cell.pointee.load() != nil else { return }
            larger.insert(entry)
            usedCount += 1
        }
        retire(table.view.exchange(larger), keeping: { $0.cell.pointee.load() != nil })
    }

    /// The power of two of which at most a third is taken.
    private static func slotCount(for count: Int) -> Int {
        var slots = 16
        while slots < count * 3 { slots *= 2 }
        return slots
    }

    private mutating func retire(_ array: SlotArray, keeping isKept: ((KeyEntry) -> Bool)?) {
        arrayNumber += 1
        array.forEach { entry in
            if let isKept, isKept(entry) { return }
            if let cell = entry.cell.pointee.exchange(nil) {
                let size = cell._withUnsafeGuaranteedRef(\.encodedSize)
                retirement.retire(cell, sizeInBytes: size + ValueCell.overhead)
            }
            retirement.retire(entry.address, sizeInBytes: entry.sizeInBytes)
        }
        retirement.retire(array.address, sizeInBytes: array.sizeInBytes)
    }

    /// What no reader can see any more, for the caller to let go of outside the lock.
    @inline(__always)
    mutating func collect() -> Retirement.Garbage? {
        retirement.isDue ? retirement.collect() : nil
    }
}

// MARK: Reading

extension TableWriter {
    /// The number of the write that stored the value of a name; nil if there is none.
    func revision(of name: KeyName) -> UInt64? {
        table.view.array.find(name)?.cell.pointee.load()?.takeUnretainedValue().revision
    }

    var names: [String] {
        var names: [String] = []
        names.reserveCapacity(count)
        table.view.array.forEach { entry in
            if entry.cell.pointee.load() != nil { names.append(entry.name.string) }
        }
        return names
    }

    /// Where a walk over the table has come to.
    struct Position {
        fileprivate var array: UInt64 = 0
        fileprivate var slot = 0
    }

    /// Goes on with a walk: adds what the next slots hold that was stored by the write of a number or before.
    ///
    /// - Returns: Whether there are slots left. A table that has got other slots meanwhile is walked from the start.
    func collect(
        from position: inout Position, upTo revision: UInt64, into collected: inout [(name: KeyName, cell: ValueCell)]
    ) -> Bool {
        let array = table.view.array
        if position.array != arrayNumber {
            position = Position(array: arrayNumber)
            collected = []
        }
        let end = min(position.slot + 4096, array.count)
        array.forEach(in: position.slot..<end) { entry in
            if let cell = entry.cell.pointee.load()?.takeUnretainedValue(), cell.revision <= revision {
                collected.append((entry.name, cell))
            }
        }
        position.slot = end
        return end < array.count
    }

    /// All names and values, in the order in which they were stored, so that a log that is written anew is the same in
    /// every process.
    ///
    /// - Complexity: O(*n* log *n*)
    var contents: [(name: KeyName, cell: ValueCell)] {
        var contents: [(name: KeyName, cell: ValueCell)] = []
        contents.reserveCapacity(count)
        table.view.array.forEach { entry in
            if let cell = entry.cell.pointee.load() { contents.append((entry.name, cell.takeUnretainedValue())) }
        }
        return contents.sorted { $0.cell.revision < $1.cell.revision }
    }
}

extension TableWriter {
    /// Does what a record says.
    mutating func apply(_ change: LogRecord.Change, _ sequence: UInt64) {
        switch change {
        case .set(let name, let bytes): store(EncodedCell(bytes, revision: sequence), name)
        case .remove(let name): remove(name)
        case .removeAll: removeAll()
        case .batch(let changes):
            let first = sequence - UInt64(changes.count - 1)
            for (index, change) in changes.enumerated() { apply(change, first + UInt64(index)) }
        case .flushed: break
        }
        // Nobody reads yet.
        _ = collect()
    }
}
