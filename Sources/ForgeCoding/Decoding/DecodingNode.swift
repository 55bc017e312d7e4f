/// The decoder of one value, and the storage that its containers share.
///
/// Decoding is lazy. A map expects its keys in encoded order, so that a synthesized `init(from:)` takes a single pass;
/// the first key out of order builds an index of the whole map (``KeyIndex``).
final class DecodingNode: Decoder {
    let source: DecodingSource
    var parent: DecodingNode?
    var step: PathStep

    /// The remaining nesting depth of the value, itself included; the same for its container's content.
    private(set) var levels: Int
    var contentLevels: Int

    /// The offset of the value, and of its end if known.
    private(set) var start: Int
    var knownEnd: Int?

    /// The position in the map, once a keyed container has been requested.
    var isMap = false
    var map = MapCursor()
    var index: KeyIndex?

    /// A node reused for successive nested values.
    private var spare: DecodingNode?

    init(source: DecodingSource, parent: DecodingNode?, step: PathStep, start: Int, levels: Int) {
        self.source = source
        self.parent = parent
        self.step = step
        self.start = start
        self.levels = levels
        contentLevels = levels - 1
    }

    var userInfo: [CodingUserInfoKey: Any] { source.userInfo.mapValues { $0 } }

    var codingPath: [any CodingKey] {
        let above = parent?.codingPath ?? []
        return step.codingKey.map { above + [$0] } ?? above
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        do throws(WireFailure) {
            try openMap()
        } catch {
            throw failure(error, [String: Any].self)
        }
        return KeyedDecodingContainer(KeyedDecoding(node: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        do throws(WireFailure) {
            let cursor = try ArrayCursor(source.reader, start, levels)
            contentLevels = cursor.levels
            return UnkeyedDecoding(node: self, cursor: cursor)
        } catch {
            throw failure(error, [Any].self)
        }
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        SingleValueDecoding(node: self)
    }

    // MARK: Nested values

    /// Decodes a value through its `init(from:)` and advances the offset past it.
    func decodeSelf<Value: Decodable>(_ type: Value.Type, _ offset: inout Int, step: PathStep) throws -> Value {
        var child = takeChild(offset, step)
        defer {
            if isKnownUniquelyReferenced(&child) {
                child.parent = nil
                spare = child
            }
        }
        let value = try decodeItself(type, child)
        do throws(WireFailure) {
            offset = try child.end()
        } catch {
            throw child.failure(error, type)
        }
        return value
    }

    /// A node for a nested container, which may be read later.
    func nested(_ offset: Int, step: PathStep) -> DecodingNode {
        DecodingNode(source: source, parent: self, step: step, start: offset, levels: contentLevels)
    }

    private func takeChild(_ offset: Int, _ step: PathStep) -> DecodingNode {
        guard let child = spare else { return nested(offset, step: step) }
        spare = nil
        child.parent = self
        child.step = step
        child.start = offset
        child.levels = contentLevels
        child.contentLevels = contentLevels - 1
        child.knownEnd = nil
        child.isMap = false
        if child.index != nil { child.index = nil }
        return child
    }

    /// The offset after the value; scans the value if its last entry has not been read.
    func end() throws(WireFailure) -> Int {
        if let knownEnd { return knownEnd }
        if isMap { return try endOfMap() }
        var offset = start
        try source.reader.skip(&offset, levels)
        return offset
    }

    // MARK: Errors

    func failure(_ wire: WireFailure, _ type: any Any.Type, step: PathStep = .none) -> DecodingError {
        let path = codingPath + (step.codingKey.map { [$0] } ?? [])
        return .from(wire, type, path)
    }
}

extension DecodingError {
    static func from(_ wire: WireFailure, _ type: any Any.Type, _ path: [any CodingKey]) -> DecodingError {
        let context = Context(codingPath: path, debugDescription: "\(type): \(wire.reason)", underlyingError: wire)
        switch wire {
        case .mismatch: return .typeMismatch(type, context)
        case .null: return .valueNotFound(type, context)
        default: return .dataCorrupted(context)
        }
    }
}

extension DecodingNode {
    @inline(__always)
    private func find(_ key: some CodingKey) throws -> MapCursor.Match? {
        do throws(WireFailure) {
            return try match(key)
        } catch {
            throw failure(error, type(of: key))
        }
    }

    @inline(__always)
    private func require(_ key: some CodingKey) throws -> MapCursor.Match {
        guard let match = try find(key) else { throw missing(key) }
        return match
    }

    private func missing(_ key: some CodingKey) -> DecodingError {
        .keyNotFound(
            key,
            .init(
                codingPath: codingPath, debugDescription: "the map has no key \"\(key.stringValue)\"",
                underlyingError: WireFailure.missing))
    }

    /// Decodes the value under a key.
    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, _ key: some CodingKey) throws -> Value {
        let match = try require(key)
        var offset = match.value
        let value = try decode(type, &offset, step: .key(key))
        do throws(WireFailure) {
            try advance(match, to: offset)
        } catch {
            throw failure(error, type, step: .key(key))
        }
        return value
    }

    /// Decodes the value at an offset and advances the offset past it.
    @inline(__always)
    func decode<Value: Decodable>(
        _ type: Value.Type, _ offset: inout Int, step: @autoclosure () -> PathStep
    ) throws -> Value {
        do throws(WireFailure) {
            return try source.reader.known(type, &offset, contentLevels)
        } catch {
            if case .unknownType = error { return try decodeSelf(type, &offset, step: step()) }
            throw failure(error, type, step: step())
        }
    }

    /// Whether the value under a key is null; skips a null.
    @inline(__always)
    private func isNull(_ match: MapCursor.Match, _ key: some CodingKey) throws -> Bool {
        do throws(WireFailure) {
            guard try source.reader.isNull(match.value) else { return false }
            try advance(match, to: match.value + 1)
            return true
        } catch {
            throw failure(error, type(of: key), step: .key(key))
        }
    }

    func decodeNil(_ key: some CodingKey) throws -> Bool {
        try isNull(require(key), key)
    }

    /// Whether the map has a value other than null under a key.
    @inline(__always)
    func hasValue(_ key: some CodingKey) throws -> Bool {
        guard let match = try find(key) else { return false }
        return try !isNull(match, key)
    }

    /// Whether the map has a key; true for a malformed map, because `contains` cannot throw and reading the value does.
    func contains(_ key: some CodingKey) -> Bool {
        do {
            return try find(key) != nil
        } catch {
            return true
        }
    }

    func namesOrEmpty() -> [String] {
        do throws(WireFailure) {
            return try keyNames()
        } catch {
            return []
        }
    }

    func nested(_ key: some CodingKey) throws -> DecodingNode {
        nested(try require(key).value, step: .key(key))
    }
}

extension DecodingNode {
    /// Reads the head of the map if it has not been read.
    func openMap() throws(WireFailure) {
        guard !isMap else { return }
        map = try MapCursor(source.reader, start, levels)
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
            var offset = map.next
            let range = try source.reader.key(&offset)
            if let fingerprint = source.reader.fingerprint(of: &name, in: range) {
                return .init(value: offset, key: map.next, fingerprint: fingerprint)
            }
        }
        return try indexedMatch(&name)
    }

    @inline(never)
    private func indexedMatch(_ name: inout String) throws(WireFailure) -> MapCursor.Match? {
        let index = try keyIndex()
        let expected = map.nextIndexPosition
        guard let position = index.find(&name, source.reader, from: expected) else { return nil }
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
        if let index { return index }
        let made = try KeyIndex(source.reader, content: map.content, count: map.count, levels: contentLevels)
        index = made
        map.isIndexed = true
        return made
    }
}
