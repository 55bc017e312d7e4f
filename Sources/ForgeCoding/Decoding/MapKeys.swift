/// The position in a map where the next key is expected.
///
/// All fields are trivial, so that an access needs no reference counting.
struct MapCursor {
    /// The offset of the first key.
    var content = 0

    /// The number of entries; nil for an indefinite length.
    var count: Int?

    /// The remaining nesting depth of the values.
    var levels = 0

    /// The offset of the next key.
    var next = 0

    /// The number of entries before the next key.
    var consumedCount = 0

    /// A filter of the keys before the next key.
    var keyFilter = KeyFilter()

    /// Whether lookups use the ``KeyIndex``.
    var isIndexed = false

    /// The position in the index that the next lookup tries first.
    var nextIndexPosition = 0

    /// The position of an entry that a lookup found.
    struct Match {
        /// The offset of the value.
        let value: Int
        /// The offset of its key; -1 if the index found it.
        let key: Int
        let fingerprint: UInt64
    }

    init() {}

    /// Creates a cursor for the map at an offset.
    init(_ reader: ByteReader, _ start: Int, _ levels: Int) throws(WireFailure) {
        var offset = start
        let outside = try reader.skipTags(&offset, levels)
        guard reader[offset] & MajorType.mask == MajorType.map else { throw reader.mismatch(offset) }
        self.levels = try reader.inside(outside)
        count = try reader.entryCount(&offset, itemsPerEntry: 2)
        content = offset
        next = offset
    }
}

/// The offsets of a map's entries, built when a type requests keys out of order.
final class KeyIndex {
    struct Entry {
        let key: Range<Int>
        let value: Int
    }

    /// The maximum number of keys for which a lookup is a linear search.
    private static let linearSearchLimit = 16

    let entries: [Entry]

    /// The position in `entries` of the first key with each hash; empty for a linear search.
    private var positions: [Int: Int] = [:]

    /// Whether two keys have the same hash, so that `positions` lacks one of them and a lookup is a linear search.
    private var isAmbiguous = false

    /// The offset after the map.
    let end: Int

    /// Reads all keys of a map and skips its values.
    ///
    /// - Parameters:
    ///   - reader: the bytes.
    ///   - content: the offset of the first key.
    ///   - count: the number of entries; nil for an indefinite length.
    ///   - levels: the remaining nesting depth of the values.
    /// - Throws: ``WireFailure/duplicateKey(offset:)``, and any failure of a malformed map.
    init(_ reader: ByteReader, content: Int, count: Int?, levels: Int) throws(WireFailure) {
        var offset = content
        var entries: [Entry] = []
        if let count { entries.reserveCapacity(min(count, 1024)) }
        while try Self.hasEntry(reader, offset, entries.count, count) {
            let start = offset
            let key = try reader.key(&offset)
            guard reader.isText(key) else { throw .invalidText(offset: start) }
            entries.append(Entry(key: key, value: offset))
            try reader.skip(&offset, levels)
        }
        self.entries = entries
        end = count == nil ? offset + 1 : offset
        try rejectDuplicates(reader)
    }

    private static func hasEntry(
        _ reader: ByteReader, _ offset: Int, _ readCount: Int, _ count: Int?
    ) throws(WireFailure) -> Bool {
        if let count { return readCount < count }
        return try reader.peek(offset) != Simple.break
    }

    private func rejectDuplicates(_ reader: ByteReader) throws(WireFailure) {
        if entries.count > Self.linearSearchLimit { positions.reserveCapacity(entries.count) }
        for (index, entry) in entries.enumerated() {
            let isDuplicate: Bool
            if entries.count > Self.linearSearchLimit {
                let hash = reader.bytes.span.hash(entry.key)
                isDuplicate = positions[hash] != nil && isRepeated(index, reader)
                if positions[hash] == nil { positions[hash] = index } else { isAmbiguous = true }
            } else {
                isDuplicate = isRepeated(index, reader)
            }
            if isDuplicate { throw .duplicateKey(offset: entry.key.lowerBound) }
        }
    }

    /// Whether an entry has the same key as an earlier one.
    private func isRepeated(_ index: Int, _ reader: ByteReader) -> Bool {
        entries[..<index].contains { reader.isEqual($0.key, entries[index].key) }
    }

    /// The position of the entry of a key; nil if there is none. Tries the position `from` first.
    ///
    /// - Complexity: O(1) on average; O(n) for at most 16 entries, or if two keys have the same hash.
    func find(_ name: inout String, _ reader: ByteReader, from: Int) -> Int? {
        let bytes = reader.bytes
        let span = bytes.span
        if from < entries.count, span.holds(&name, in: entries[from].key) { return from }
        if !positions.isEmpty, !isAmbiguous {
            guard let position = positions[name.hashOfUTF8()] else { return nil }
            return span.holds(&name, in: entries[position].key) ? position : nil
        }
        for (index, entry) in entries.enumerated() where span.holds(&name, in: entry.key) { return index }
        return nil
    }
}

extension ByteReader {
    /// Whether two ranges contain the same bytes.
    fileprivate func isEqual(_ first: Range<Int>, _ second: Range<Int>) -> Bool {
        guard first.count == second.count else { return false }
        let span = bytes.span
        for place in 0..<first.count where span[first.lowerBound + place] != span[second.lowerBound + place] {
            return false
        }
        return true
    }
}

/// A 128-bit Bloom filter of the keys of a map.
struct KeyFilter {
    private var low: UInt64
    private var high: UInt64

    init() { (low, high) = (0, 0) }

    /// A filter that reports every key as a possible repetition.
    static let full = {
        var filter = KeyFilter()
        (filter.low, filter.high) = (.max, .max)
        return filter
    }()

    /// Adds the fingerprint of a key.
    ///
    /// - Returns: False if the key was certainly not inserted before.
    @inline(__always)
    mutating func insert(_ fingerprint: UInt64) -> Bool {
        let bit = UInt64(1) << (fingerprint & 63)
        if fingerprint & 64 == 0 {
            defer { low |= bit }
            return low & bit != 0
        }
        defer { high |= bit }
        return high & bit != 0
    }

    /// A seven-bit hash of a key's length, beginning and end.
    @inline(__always)
    static func fingerprint(_ key: Span<UInt8>) -> UInt64 {
        let first: UInt64
        let last: UInt64
        switch key.count {
        case 8...:
            first = key.load(0, as: UInt64.self)
            last = key.load(key.count &- 8, as: UInt64.self)
        case 4...:
            first = UInt64(key.load(0, as: UInt32.self))
            last = UInt64(key.load(key.count &- 4, as: UInt32.self))
        case 1...:
            first = UInt64(key[0])
            last = UInt64(key[key.count &- 1]) << 8 | UInt64(key[key.count / 2])
        default: return 0
        }
        let mixed = (first ^ (last &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(key.count)) &* 0xD6E8_FEB8_6659_FD93
        return mixed >> 57
    }
}
