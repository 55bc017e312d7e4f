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
