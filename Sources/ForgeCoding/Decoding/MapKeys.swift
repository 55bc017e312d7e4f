import Foundation

/// The position in a map where the next key is expected.
///
/// Trivial fields only, so that access needs no reference counting.
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

    /// The keys before the next one.
    var keyFilter = KeyFilter()

    /// Whether lookup uses the index.
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
    init(_ reader: ByteReader, _ start: Int) throws(WireFailure) {
        var offset = start
        let tagged = try reader.skipTags(&offset)
        guard reader[offset] & MajorType.mask == MajorType.map else { throw reader.mismatch(offset) }
        levels = try tagged.inside().levels
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

    /// The bytes of a key, as a dictionary key. It does not own them: they must stay valid while the index is used.
    private struct Name: Hashable {
        let bytes: UnsafeBufferPointer<UInt8>

        static func == (first: Name, second: Name) -> Bool { first.bytes.elementsEqual(second.bytes) }

        func hash(into hasher: inout Hasher) {
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        }
    }

    /// Up to this many keys, lookup is a linear search.
    private static let linearSearchLimit = 16

    let entries: [Entry]
    private var positions: [Name: Int] = [:]

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
            guard UTF8Check.isValid(reader.bytes(key)) else { throw .invalidText(offset: start) }
            entries.append(Entry(key: key, value: offset))
            try reader.skip(&offset, levels: levels)
        }
        self.entries = entries
        end = count == nil ? offset + 1 : offset
        try rejectDuplicates(reader)
    }

    private static func hasEntry(
        _ reader: ByteReader, _ offset: Int, _ read: Int, _ count: Int?
    ) throws(WireFailure) -> Bool {
        if let count { return read < count }
        return try reader.peek(offset) != Simple.break
    }

    private func rejectDuplicates(_ reader: ByteReader) throws(WireFailure) {
        guard entries.count > Self.linearSearchLimit else {
            for (index, entry) in entries.enumerated() where find(reader.bytes(entry.key), reader, from: 0) != index {
                throw .duplicateKey(offset: entry.key.lowerBound)
            }
            return
        }
        positions.reserveCapacity(entries.count)
        for (index, entry) in entries.enumerated() {
            guard positions.updateValue(index, forKey: Name(bytes: reader.bytes(entry.key))) == nil else {
                throw .duplicateKey(offset: entry.key.lowerBound)
            }
        }
    }

    /// The position of a key; tries `from`, the next key in order, first.
    func find(_ name: UnsafeBufferPointer<UInt8>, _ reader: ByteReader, from: Int) -> Int? {
        if from < entries.count, reader.matches(entries[from].key, name) { return from }
        guard positions.isEmpty else { return positions[Name(bytes: name)] }
        return entries.firstIndex { reader.matches($0.key, name) }
    }
}

extension ByteReader {
    /// Whether the bytes in a range of the reader equal `name`.
    @inline(__always)
    func matches(_ range: Range<Int>, _ name: UnsafeBufferPointer<UInt8>) -> Bool {
        guard range.count == name.count else { return false }
        let own = bytes(range)
        guard let first = own.baseAddress, let second = name.baseAddress else { return own.count == name.count }
        return memcmp(first, second, name.count) == 0
    }
}

/// A 128-bit Bloom filter of the keys of a map.
struct KeyFilter {
    private var low: UInt64
    private var high: UInt64

    init() { (low, high) = (0, 0) }

    /// A filter that takes every key for a possible repetition.
    static let full = {
        var filter = KeyFilter()
        (filter.low, filter.high) = (.max, .max)
        return filter
    }()

    /// Adds the fingerprint of a key.
    ///
    /// - Returns: false if the key is certainly new.
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
    static func fingerprint(_ key: UnsafeBufferPointer<UInt8>) -> UInt64 {
        guard let start = UnsafeRawBufferPointer(key).baseAddress else { return 0 }
        let first: UInt64
        let last: UInt64
        switch key.count {
        case 8...:
            first = start.loadUnaligned(as: UInt64.self)
            last = start.loadUnaligned(fromByteOffset: key.count - 8, as: UInt64.self)
        case 4...:
            first = UInt64(start.loadUnaligned(as: UInt32.self))
            last = UInt64(start.loadUnaligned(fromByteOffset: key.count - 4, as: UInt32.self))
        case 1...:
            first = UInt64(key[0])
            last = UInt64(key[key.count - 1]) << 8 | UInt64(key[key.count / 2])
        default: return 0
        }
        let mixed = (first ^ (last &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(key.count)) &* 0xD6E8_FEB8_6659_FD93
        return mixed >> 57
    }
}
