extension DecodingNode {
    /// Reads the head of the map if it has not been read.
    func openMap() throws(WireFailure) {
        guard !isMap else { return }
        map = try MapCursor(reader, start)
        contentLevels = map.levels
        isMap = true
    }

    /// Whether the next entry can be read in order.
    @inline(__always)
    private func hasNext() throws(WireFailure) -> Bool {
        if map.isIndexed { return false }
        if let count = map.count { return map.consumedCount < count }
        return try source.reader.peek(map.next) != Simple.break
    }

    /// Finds the value under a key; nil if the map has no such key.
    ///
    /// - Complexity: O(1) for the next key in order; the first key out of order scans the map.
    @inline(__always)
    func match(_ key: some CodingKey) throws(WireFailure) -> MapCursor.Match? {
        var name = key.stringValue
        if try hasNext() {
            let reader = source.reader
            var offset = map.next
            let range = try reader.key(&offset)
            let fingerprint = name.withUTF8 { reader.matches(range, $0) ? KeyFilter.fingerprint($0) : nil }
            if let fingerprint { return .init(value: offset, key: map.next, fingerprint: fingerprint) }
        }
        return try indexedMatch(&name)
    }

    @inline(never)
    private func indexedMatch(_ name: inout String) throws(WireFailure) -> MapCursor.Match? {
        let index = try keyIndex()
        let expected = map.nextIndexPosition
        guard let position = name.withUTF8({ index.find($0, source.reader, from: expected) }) else { return nil }
        map.nextIndexPosition = position
        return .init(value: index.entries[position].value, key: -1, fingerprint: 0)
    }

    /// Advances past a value that has been read.
    @inline(__always)
    func advance(_ match: MapCursor.Match, to end: Int) throws(WireFailure) {
        guard match.key == map.next, !map.isIndexed else {
            map.nextIndexPosition &+= 1
            return
        }
        var bits = map.keyFilter
        let mayBeDuplicate = bits.insert(match.fingerprint)
        map.keyFilter = bits
        map.next = end
        map.consumedCount &+= 1
        map.nextIndexPosition = map.consumedCount
        if mayBeDuplicate { _ = try keyIndex() }
    }

    /// All keys in encoded order.
    func keyNames() throws(WireFailure) -> [String] {
        var names: [String] = []
        for entry in try keyIndex().entries {
            names.append(try source.reader.text(entry.key, entry.key.lowerBound))
        }
        return names
    }

    /// The offset after the map.
    func endOfMap() throws(WireFailure) -> Int {
        if map.isIndexed { return try keyIndex().end }
        if try hasNext() { return try keyIndex().end }
        return map.count == nil ? map.next + 1 : map.next
    }

    private func keyIndex() throws(WireFailure) -> KeyIndex {
        // A closed reader is empty, and the index refers to its former bytes.
        guard map.content <= source.reader.count else { throw .truncated(offset: map.content) }
        if let index { return index }
        let made = try KeyIndex(source.reader, content: map.content, count: map.count, levels: contentLevels)
        index = made
        map.isIndexed = true
        return made
    }
}
