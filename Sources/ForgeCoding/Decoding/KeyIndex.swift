import Foundation

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
