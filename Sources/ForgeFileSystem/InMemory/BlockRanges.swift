/// Block numbers as sorted, disjoint and non-adjacent ranges.
struct BlockRanges: Hashable, Sendable {
    private(set) var ranges: [Range<Int64>] = []

    var isEmpty: Bool { ranges.isEmpty }

    /// The number of members in `range`.
    func overlap(with range: Range<Int64>) -> Int64 {
        ranges.reduce(0) { sum, member in sum + Int64(member.clamped(to: range).count) }
    }

    func contains(_ block: Int64) -> Bool {
        ranges.contains { $0.contains(block) }
    }

    mutating func insert(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        var merged = range
        var kept: [Range<Int64>] = []
        for member in ranges {
            if member.upperBound < merged.lowerBound || member.lowerBound > merged.upperBound {
                kept.append(member)
            } else {
                merged = min(member.lowerBound, merged.lowerBound)..<max(member.upperBound, merged.upperBound)
            }
        }
        let position = kept.firstIndex { $0.lowerBound > merged.lowerBound } ?? kept.endIndex
        kept.insert(merged, at: position)
        ranges = kept
    }

    /// Removes every block from `end` on.
    mutating func clip(to end: Int64) {
        ranges = ranges.compactMap { member in
            let clipped = member.clamped(to: member.lowerBound..<max(end, member.lowerBound))
            return clipped.isEmpty ? nil : clipped
        }
    }
}
