import Foundation

// Memory safety: All names are in one array, whose slots give ranges within it; addresses in it are used only inside
// the closure that provides them.

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
        /// The checksum of the value.
        var valueChecksum: UInt32

        var isPresent: Bool { valueSize >= 0 }

        /// Whether this is the value of another slot. A revision alone does not tell: another store counts its own.
        func hasSameValue(as other: Slot) -> Bool {
            revision == other.revision && valueSize == other.valueSize && valueChecksum == other.valueChecksum
        }
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
    mutating func set(
        _ name: KeyName, revision: UInt64, valueOffset: Int64, valueSize: Int, valueChecksum: UInt32
    ) -> Bool {
        if let number = numbers[name] {
            let wasPresent = slots[Int(number)].isPresent
            slots[Int(number)].revision = revision
            slots[Int(number)].valueOffset = valueOffset
            slots[Int(number)].valueSize = valueSize
            slots[Int(number)].valueChecksum = valueChecksum
            if !wasPresent { didInsert(number) }
            return !wasPresent
        }
        let number = Int32(slots.count)
        let start = bytes.count
        unsafe name.withBytes { unsafe bytes.append(contentsOf: $0) }
        slots.append(
            Slot(
                nameStart: start, nameCount: name.count, revision: revision, valueOffset: valueOffset,
                valueSize: valueSize, valueChecksum: valueChecksum))
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

    @safe
    private struct SortedName {
        var start: UnsafePointer<UInt8>?
        var count: Int
        var number: Int32
    }

    private func makeOrder() -> [Int32] {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            var names: [SortedName] = []
            names.reserveCapacity(count)
            for (number, slot) in slots.enumerated() where slot.isPresent {
                let start = unsafe bytes.baseAddress.map { unsafe $0 + slot.nameStart }
                unsafe names.append(SortedName(start: start, count: slot.nameCount, number: Int32(number)))
            }
            // The C library's sort runs the comparison without generic code, also in debug builds.
            unsafe qsort(&names, names.count, MemoryLayout<SortedName>.stride) { left, right in
                guard let left = unsafe left?.load(as: SortedName.self),
                    let right = unsafe right?.load(as: SortedName.self)
                else {
                    return 0
                }
                return unsafe IndexedNames.compare(left.start, left.count, right.start, right.count)
            }
            return names.map(\.number)
        }
    }

    fileprivate static func compare(
        _ left: UnsafePointer<UInt8>?, _ leftCount: Int, _ right: UnsafePointer<UInt8>?, _ rightCount: Int
    ) -> Int32 {
        if let left = unsafe left, let right = unsafe right, leftCount > 0, rightCount > 0 {
            let order = unsafe memcmp(left, right, min(leftCount, rightCount))
            if order != 0 { return order }
        }
        return leftCount < rightCount ? -1 : (leftCount > rightCount ? 1 : 0)
    }

    /// The position in an order at which a slot is, or would be inserted.
    private func position(of number: Int32, in order: [Int32]) -> Int {
        let slot = slots[Int(number)]
        return unsafe position(in: order) { name in
            let own = unsafe UnsafeRawBufferPointer(
                rebasing: name.all[slot.nameStart..<slot.nameStart + slot.nameCount])
            return unsafe Self.compare(
                name.own.baseAddress?.assumingMemoryBound(to: UInt8.self), name.own.count,
                own.baseAddress?.assumingMemoryBound(to: UInt8.self), own.count) < 0
        }
    }

    /// The first position in an order whose name does not precede; names are compared byte by byte.
    func position(
        in order: [Int32], where precedes: ((own: UnsafeRawBufferPointer, all: UnsafeRawBufferPointer)) -> Bool
    ) -> Int {
        unsafe bytes.withUnsafeBytes { all in
            var (low, high) = (0, order.count)
            while low < high {
                let middle = (low + high) / 2
                let slot = slots[Int(order[middle])]
                let own = unsafe UnsafeRawBufferPointer(rebasing: all[slot.nameStart..<slot.nameStart + slot.nameCount])
                if unsafe precedes((own, all)) { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// Calls `body` with the bytes of each name of an order.
    func forEachName(_ order: ArraySlice<Int32>, _ body: (Int32, UnsafeRawBufferPointer) -> Void) {
        unsafe bytes.withUnsafeBytes { all in
            for number in order {
                let slot = slots[Int(number)]
                unsafe body(
                    number, UnsafeRawBufferPointer(rebasing: all[slot.nameStart..<slot.nameStart + slot.nameCount]))
            }
        }
    }
}

extension KVLogIndex {
    /// The order of names in a list.
    package enum Order: String, Sendable { case name, size }

    /// A line of a list of names at one level of the tree that a delimiter makes of them.
    package enum Line: Sendable {
        /// A name that ends at this level.
        case name(Int32)
        /// All names that begin with a prefix, which ends with the delimiter: the number of the first, and how many.
        case group(Int32, count: Int)
    }

    /// The names that begin with a prefix and contain a text, in an order; as numbers for ``entry(numbered:)``, which
    /// are valid until the next refresh.
    ///
    /// - Complexity: O(*n*) in the number of names; O(*n* log *n*) by size, and for the first call.
    package mutating func names(prefix: String = "", containing text: String = "", by order: Order = .name) -> [Int32] {
        guard var log = self.log else { return [] }
        self.log = nil
        defer { self.log = log }
        let all = log.sortedNames()
        var found = Array(all[log.names.range(ofPrefix: prefix, in: all)])
        if !text.isEmpty {
            var matching: [Int32] = []
            let text = Array(text.utf8)
            unsafe log.names.forEachName(found[...]) { number, name in
                if unsafe name.offset(of: text) != nil { matching.append(number) }
            }
            found = matching
        }
        guard order == .size else { return found }
        return log.names.largestFirst(found)
    }

    /// The lines of one level: the names that begin with a prefix, those with a delimiter after it as groups.
    ///
    /// - Complexity: O(*n*) in the number of names with the prefix.
    package mutating func level(below prefix: String, delimiter: Character) -> [Line] {
        guard var log = self.log else { return [] }
        self.log = nil
        defer { self.log = log }
        let all = log.sortedNames()
        let range = log.names.range(ofPrefix: prefix, in: all)
        let (start, delimiter) = (prefix.utf8.count, Array(String(delimiter).utf8))
        var lines: [Line] = []
        var group: [UInt8] = []
        unsafe log.names.forEachName(all[range]) { number, name in
            if !group.isEmpty, unsafe name.begins(with: group) {
                if case .group(let first, let count) = lines[lines.count - 1] {
                    lines[lines.count - 1] = .group(first, count: count + 1)
                }
                return
            }
            let rest = unsafe UnsafeRawBufferPointer(rebasing: name[start...])
            guard let offset = unsafe rest.offset(of: delimiter) else {
                group = []
                return lines.append(.name(number))
            }
            group = unsafe Array(name[..<(start + offset + delimiter.count)])
            lines.append(.group(number, count: 1))
        }
        return lines
    }
}

extension IndexedNames {
    /// The range of an order in which all names begin with a prefix.
    fileprivate func range(ofPrefix prefix: String, in order: [Int32]) -> Range<Int> {
        let prefix = Array(prefix.utf8)
        guard !prefix.isEmpty else { return 0..<order.count }
        let compare = { (name: UnsafeRawBufferPointer) -> Int32 in
            guard let start = name.baseAddress else { return -1 }
            let result = unsafe memcmp(start, prefix, min(name.count, prefix.count))
            return result != 0 ? result : (name.count < prefix.count ? -1 : 0)
        }
        let lower = unsafe position(in: order) { unsafe compare($0.own) < 0 }
        return unsafe lower..<max(lower, position(in: order) { unsafe compare($0.own) <= 0 })
    }

    private struct SizedName {
        var size: Int
        var position: Int32
        var number: Int32
    }

    fileprivate func largestFirst(_ numbers: [Int32]) -> [Int32] {
        var sized = numbers.enumerated().map { position, number in
            SizedName(size: slots[Int(number)].valueSize, position: Int32(position), number: number)
        }
        unsafe qsort(&sized, sized.count, MemoryLayout<SizedName>.stride) { left, right in
            guard let left = unsafe left?.load(as: SizedName.self), let right = unsafe right?.load(as: SizedName.self)
            else {
                return 0
            }
            if left.size != right.size { return left.size > right.size ? -1 : 1 }
            return left.position < right.position ? -1 : 1
        }
        return sized.map(\.number)
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func begins(with bytes: [UInt8]) -> Bool {
        guard let baseAddress, count >= bytes.count else { return false }
        return unsafe memcmp(baseAddress, bytes, bytes.count) == 0
    }

    /// The offset of the first occurrence of bytes, of which there is at least one; nil if there is none.
    fileprivate func offset(of bytes: [UInt8]) -> Int? {
        guard let base = baseAddress else { return nil }
        var start = 0
        // The C library's functions run without generic code, also in debug builds.
        while start + bytes.count <= count {
            guard let found = unsafe memchr(base + start, Int32(bytes[0]), count - start - bytes.count + 1) else {
                return nil
            }
            if unsafe memcmp(found, bytes, bytes.count) == 0 { return unsafe UnsafeRawPointer(found) - base }
            start = unsafe UnsafeRawPointer(found) - base + 1
        }
        return nil
    }
}
