import Foundation

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
            log.names.forEachName(found[...]) { number, name in
                if name.offset(of: text) != nil { matching.append(number) }
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
        log.names.forEachName(all[range]) { number, name in
            if !group.isEmpty, name.begins(with: group) {
                if case .group(let first, let count) = lines[lines.count - 1] {
                    lines[lines.count - 1] = .group(first, count: count + 1)
                }
                return
            }
            let rest = UnsafeRawBufferPointer(rebasing: name[start...])
            guard let offset = rest.offset(of: delimiter) else {
                group = []
                return lines.append(.name(number))
            }
            group = Array(name[..<(start + offset + delimiter.count)])
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
            let result = memcmp(start, prefix, min(name.count, prefix.count))
            return result != 0 ? result : (name.count < prefix.count ? -1 : 0)
        }
        let lower = position(in: order) { compare($0.own) < 0 }
        return lower..<max(lower, position(in: order) { compare($0.own) <= 0 })
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
        qsort(&sized, sized.count, MemoryLayout<SizedName>.stride) { left, right in
            guard let left = left?.load(as: SizedName.self), let right = right?.load(as: SizedName.self) else {
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
        return memcmp(baseAddress, bytes, bytes.count) == 0
    }

    /// The offset of the first occurrence of bytes, of which there is at least one; nil if there is none.
    fileprivate func offset(of bytes: [UInt8]) -> Int? {
        guard let base = baseAddress else { return nil }
        var start = 0
        // The C library's functions run without generic code, also in debug builds.
        while start + bytes.count <= count {
            guard let found = memchr(base + start, Int32(bytes[0]), count - start - bytes.count + 1) else { return nil }
            if memcmp(found, bytes, bytes.count) == 0 { return UnsafeRawPointer(found) - base }
            start = UnsafeRawPointer(found) - base + 1
        }
        return nil
    }
}
