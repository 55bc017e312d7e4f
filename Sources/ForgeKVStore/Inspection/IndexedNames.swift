import Foundation

/// The names of a log with the places of their values; the names are in one buffer, so that sorting and searching a
/// million of them allocates nothing per name.
struct IndexedNames: Sendable {
    /// A name and its current value.
    struct Slot: Sendable {
        var nameStart: Int
        var nameCount: Int
        var revision: UInt64
        var valueOffset: Int64
        /// The length of the value; -1 if the name has none at present.
        var valueSize: Int

        var isPresent: Bool { valueSize >= 0 }
    }

    private(set) var slots: [Slot] = []
    private var bytes: [UInt8] = []
    private var numbers: [KeyName: Int32] = [:]

    /// The number of names with a value.
    private(set) var count = 0

    /// The numbers of the slots with a value, by the bytes of their names; nil until it is needed.
    private var order: [Int32]?

    /// The number of single insertions and removals that the order has followed since it was made.
    private var adjustmentCount = 0

    /// Above this number it is cheaper to sort again.
    private static let adjustmentLimit = 512

    func slot(of name: KeyName) -> Slot? {
        guard let number = numbers[name], slots[Int(number)].isPresent else { return nil }
        return slots[Int(number)]
    }

    func name(_ number: Int32) -> String {
        let slot = slots[Int(number)]
        return String(decoding: bytes[slot.nameStart..<slot.nameStart + slot.nameCount], as: UTF8.self)
    }

    /// Stores a value's place; returns whether the name had none before.
    mutating func set(_ name: KeyName, revision: UInt64, valueOffset: Int64, valueSize: Int) -> Bool {
        if let number = numbers[name] {
            let wasPresent = slots[Int(number)].isPresent
            slots[Int(number)].revision = revision
            slots[Int(number)].valueOffset = valueOffset
            slots[Int(number)].valueSize = valueSize
            if !wasPresent { didInsert(number) }
            return !wasPresent
        }
        let number = Int32(slots.count)
        let start = bytes.count
        name.withBytes { bytes.append(contentsOf: $0) }
        slots.append(
            Slot(
                nameStart: start, nameCount: name.count, revision: revision, valueOffset: valueOffset,
                valueSize: valueSize))
        numbers[name] = number
        didInsert(number)
        return true
    }

    /// Removes a value; returns whether there was one.
    mutating func remove(_ name: KeyName) -> Bool {
        guard let number = numbers[name], slots[Int(number)].isPresent else { return false }
        adjust { order, table in
            order.remove(at: table.position(of: number, in: order))
        }
        slots[Int(number)].valueSize = -1
        count -= 1
        return true
    }

    private mutating func didInsert(_ number: Int32) {
        count += 1
        adjust { order, table in
            order.insert(number, at: table.position(of: number, in: order))
        }
    }

    private mutating func adjust(_ change: (inout [Int32], IndexedNames) -> Void) {
        guard var order else { return }
        self.order = nil
        adjustmentCount += 1
        guard adjustmentCount <= Self.adjustmentLimit else { return }
        change(&order, self)
        self.order = order
    }
}

// MARK: Order

extension IndexedNames {
    /// The numbers of the slots with a value, by the bytes of their names.
    ///
    /// - Complexity: O(*n* log *n*) for the first call and after many changes, else O(1).
    mutating func sorted() -> [Int32] {
        if let order { return order }
        let sorted = makeOrder()
        order = sorted
        adjustmentCount = 0
        return sorted
    }

    private struct SortedName {
        var start: UnsafePointer<UInt8>?
        var count: Int
        var number: Int32
    }

    private func makeOrder() -> [Int32] {
        bytes.withUnsafeBufferPointer { bytes in
            var names: [SortedName] = []
            names.reserveCapacity(count)
            for (number, slot) in slots.enumerated() where slot.isPresent {
                let start = bytes.baseAddress.map { $0 + slot.nameStart }
                names.append(SortedName(start: start, count: slot.nameCount, number: Int32(number)))
            }
            // The C library's sort runs the comparison without generic code, also in debug builds.
            qsort(&names, names.count, MemoryLayout<SortedName>.stride) { left, right in
                guard let left = left?.load(as: SortedName.self), let right = right?.load(as: SortedName.self) else {
                    return 0
                }
                return IndexedNames.compare(left.start, left.count, right.start, right.count)
            }
            return names.map(\.number)
        }
    }

    fileprivate static func compare(
        _ left: UnsafePointer<UInt8>?, _ leftCount: Int, _ right: UnsafePointer<UInt8>?, _ rightCount: Int
    ) -> Int32 {
        if let left, let right, leftCount > 0, rightCount > 0 {
            let order = memcmp(left, right, min(leftCount, rightCount))
            if order != 0 { return order }
        }
        return leftCount < rightCount ? -1 : (leftCount > rightCount ? 1 : 0)
    }

    /// The position in an order at which a slot is, or would be inserted.
    private func position(of number: Int32, in order: [Int32]) -> Int {
        let slot = slots[Int(number)]
        return position(in: order) { name in
            let own = UnsafeRawBufferPointer(rebasing: name.all[slot.nameStart..<slot.nameStart + slot.nameCount])
            return Self.compare(
                name.own.baseAddress?.assumingMemoryBound(to: UInt8.self), name.own.count,
                own.baseAddress?.assumingMemoryBound(to: UInt8.self), own.count) < 0
        }
    }

    /// The first position in an order whose name does not precede; names are compared byte by byte.
    func position(
        in order: [Int32], where precedes: ((own: UnsafeRawBufferPointer, all: UnsafeRawBufferPointer)) -> Bool
    ) -> Int {
        bytes.withUnsafeBytes { all in
            var (low, high) = (0, order.count)
            while low < high {
                let middle = (low + high) / 2
                let slot = slots[Int(order[middle])]
                let own = UnsafeRawBufferPointer(rebasing: all[slot.nameStart..<slot.nameStart + slot.nameCount])
                if precedes((own, all)) { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// Calls `body` with the bytes of each name of an order.
    func forEachName(_ order: ArraySlice<Int32>, _ body: (Int32, UnsafeRawBufferPointer) -> Void) {
        bytes.withUnsafeBytes { all in
            for number in order {
                let slot = slots[Int(number)]
                body(number, UnsafeRawBufferPointer(rebasing: all[slot.nameStart..<slot.nameStart + slot.nameCount]))
            }
        }
    }
}
