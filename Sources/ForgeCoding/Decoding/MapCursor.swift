/// A place in a map: where the next key is expected.
struct MapCursor {
    private let content: Int
    private let count: Int?
    private let levels: Int

    /// The offset of the next key, and how many entries lie before it.
    private var next: Int
    private var passed = 0
    private var keys = KeyTracker()

    private var index: KeyIndex?
    private var expected = 0

    /// - Parameter levels: how many levels of nesting the values may have.
    init(_ reader: ByteReader, _ start: Int, levels: Int) throws(WireFailure) {
        var offset = start
        try reader.skipTags(&offset)
        guard reader[offset] & MajorType.mask == MajorType.map else { throw reader.mismatch(offset) }
        guard levels >= 0 else { throw .tooDeep }
        count = try reader.entryCount(&offset, itemsPerEntry: 2)
        self.levels = levels
        content = offset
        next = offset
    }

    /// Whether the next entry in order can be read without an index.
    @inline(__always)
    private func hasNext(_ reader: ByteReader) throws(WireFailure) -> Bool {
        if let count { return passed < count }
        return try reader.peek(next) != Simple.break
    }

    /// The offset of the value under a key; nil if the map has no such key.
    ///
    /// - Complexity: O(1) for the next key in order; the first other key costs a pass over the map.
    @inline(__always)
    mutating func find(_ name: UnsafeBufferPointer<UInt8>, _ reader: ByteReader) throws(WireFailure) -> Int? {
        if index == nil, try hasNext(reader) {
            var offset = next
            let key = try reader.key(&offset)
            if reader.matches(key, name) { return offset }
        }
        return try findIndexed(name, reader)
    }

    @inline(never)
    private mutating func findIndexed(
        _ name: UnsafeBufferPointer<UInt8>, _ reader: ByteReader
    ) throws(WireFailure) -> Int? {
        let index = try makeIndex(reader)
        guard let position = index.find(name, reader, from: expected) else { return nil }
        expected = position
        return index.entries[position].value
    }

    /// Moves behind the value that was found last.
    @inline(__always)
    mutating func advance(_ name: UnsafeBufferPointer<UInt8>, to end: Int, _ reader: ByteReader) throws(WireFailure) {
        if index != nil {
            expected += 1
        } else if keys.insert(name) {
            // Perhaps a key that was there before: the index knows.
            expected = passed + 1
            _ = try makeIndex(reader)
        } else {
            next = end
            passed += 1
        }
    }

    /// All keys in order.
    mutating func names(_ reader: ByteReader) throws(WireFailure) -> [String] {
        var names: [String] = []
        for entry in try makeIndex(reader).entries {
            names.append(try reader.text(entry.key, entry.key.lowerBound))
        }
        return names
    }

    /// Where the map ends.
    mutating func end(_ reader: ByteReader) throws(WireFailure) -> Int {
        if index == nil, try !hasNext(reader) { return count == nil ? next + 1 : next }
        return try makeIndex(reader).end
    }

    private mutating func makeIndex(_ reader: ByteReader) throws(WireFailure) -> KeyIndex {
        // A closed reader has no bytes that the index of an earlier time could point to.
        guard content <= reader.count else { throw .truncated(offset: content) }
        if let index { return index }
        let index = try KeyIndex(reader, content: content, count: count, levels: levels)
        if expected == 0 { expected = passed }
        self.index = index
        return index
    }
}

/// A place in an array.
struct ArrayCursor {
    let count: Int?
    private let levels: Int
    private(set) var next: Int
    private(set) var passed = 0

    init(_ reader: ByteReader, _ start: Int, levels: Int) throws(WireFailure) {
        var offset = start
        try reader.skipTags(&offset)
        guard reader[offset] & MajorType.mask == MajorType.array else { throw reader.mismatch(offset) }
        guard levels >= 0 else { throw .tooDeep }
        count = try reader.entryCount(&offset, itemsPerEntry: 1)
        self.levels = levels
        next = offset
    }

    /// Whether there is no further element. An array that is cut off is not at its end: reading on throws.
    @inline(__always)
    func isAtEnd(_ reader: ByteReader) -> Bool {
        if let count { return passed >= count }
        return next < reader.count && reader[next] == Simple.break
    }

    @inline(__always)
    mutating func advance(to end: Int) {
        next = end
        passed += 1
    }

    /// Where the array ends; nil before its last element has been read.
    @inline(__always)
    func end(_ reader: ByteReader) -> Int? {
        guard isAtEnd(reader) else { return nil }
        return count == nil ? next + 1 : next
    }

    /// The number of elements, counted if the array does not tell; nil if it is malformed.
    func countingElements(_ reader: ByteReader) -> Int? {
        if let count { return count }
        var rest = self
        while !rest.isAtEnd(reader) {
            var offset = rest.next
            do throws(WireFailure) {
                try reader.skip(&offset, levels: levels)
            } catch {
                // `count` has no way to throw; reading the element will.
                return nil
            }
            rest.advance(to: offset)
        }
        return rest.passed
    }
}
