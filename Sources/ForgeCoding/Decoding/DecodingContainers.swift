/// Decodes a map as a keyed container.
struct KeyedDecoding<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let node: DecodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    /// The keys that `Key` accepts, in encoded order; empty for a malformed map, in which reading a value throws.
    var allKeys: [Key] { node.namesOrEmpty().compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { node.contains(key) }

    func decodeNil(forKey key: Key) throws -> Bool {
        try node.decodeNil(key)
    }

    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try node.decode(type, key)
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try present(type, key)
    }

    @inline(__always)
    private func present<Value: Decodable>(_ type: Value.Type, _ key: Key) throws -> Value? {
        try node.hasValue(key) ? node.decode(type, key) : nil
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        try node.nested(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try node.nested(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { try node.nested(SuperKey()) }

    func superDecoder(forKey key: Key) throws -> any Decoder { try node.nested(key) }
}

// The protocol has a separate requirement, with a default implementation, for each of these types. That default takes
// precedence over the generic method of this type.
extension KeyedDecoding {
    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 { try node.decode(type, key) }
    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 { try node.decode(type, key) }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? { try present(type, key) }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? { try present(type, key) }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? { try present(type, key) }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? { try present(type, key) }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? { try present(type, key) }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? { try present(type, key) }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? { try present(type, key) }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? { try present(type, key) }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? { try present(type, key) }
    func decodeIfPresent(_ type: Int128.Type, forKey key: Key) throws -> Int128? { try present(type, key) }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? { try present(type, key) }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? { try present(type, key) }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? { try present(type, key) }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? { try present(type, key) }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? { try present(type, key) }
    func decodeIfPresent(_ type: UInt128.Type, forKey key: Key) throws -> UInt128? { try present(type, key) }
}

/// Decodes an array as an unkeyed container. An element that fails to decode remains the next element.
struct UnkeyedDecoding: UnkeyedDecodingContainer {
    let node: DecodingNode
    var cursor: ArrayCursor

    var codingPath: [any CodingKey] { node.codingPath }

    var count: Int? { cursor.countingElements(node.source.reader) }

    var currentIndex: Int { cursor.consumedCount }

    var isAtEnd: Bool { cursor.isAtEnd(node.source.reader) }

    @inline(__always)
    private mutating func advance(to offset: Int) {
        cursor.advance(to: offset)
        if let end = cursor.end(node.source.reader) { node.knownEnd = end }
    }

    @inline(__always)
    private func requireElement(_ type: any Any.Type) throws {
        if isAtEnd { throw atEnd(type) }
    }

    private func atEnd(_ type: any Any.Type) -> DecodingError {
        .valueNotFound(
            type,
            .init(
                codingPath: codingPath + [IndexKey(cursor.consumedCount)],
                debugDescription: "\(type): the array has no further element", underlyingError: WireFailure.missing))
    }

    mutating func decodeNil() throws -> Bool {
        try requireElement(Any.self)
        do throws(WireFailure) {
            guard try node.source.reader.isNull(cursor.next) else { return false }
        } catch {
            throw node.failure(error, Any.self, step: .index(cursor.consumedCount))
        }
        advance(to: cursor.next + 1)
        return true
    }

    @inline(__always)
    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try decodeAny(type) }

    @inline(__always)
    private mutating func decodeAny<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try requireElement(type)
        var offset = cursor.next
        let value = try node.decode(type, &offset, step: .index(cursor.consumedCount))
        advance(to: offset)
        return value
    }

    mutating func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type
    ) throws -> KeyedDecodingContainer<NestedKey> {
        let (child, end) = try nested(type)
        let container = try child.container(keyedBy: type)
        advance(to: end)
        return container
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        let (child, end) = try nested([Any].self)
        let container = try child.unkeyedContainer()
        advance(to: end)
        return container
    }

    mutating func superDecoder() throws -> any Decoder {
        let (child, end) = try nested((any Decoder).self)
        advance(to: end)
        return child
    }

    /// A node for the next element, which may be read later, and the element's end.
    private func nested(_ type: any Any.Type) throws -> (DecodingNode, end: Int) {
        try requireElement(type)
        let child = node.nested(cursor.next, step: .index(cursor.consumedCount))
        do throws(WireFailure) {
            return (child, try child.end())
        } catch {
            throw child.failure(error, type)
        }
    }
}

extension UnkeyedDecoding {
    mutating func decode(_ type: Int128.Type) throws -> Int128 { try decodeAny(type) }
    mutating func decode(_ type: UInt128.Type) throws -> UInt128 { try decodeAny(type) }
}

/// The single-value container of an item.
struct SingleValueDecoding: SingleValueDecodingContainer {
    let node: DecodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    /// Whether the value is null or undefined. Returns false at the end of the input; every other read throws there.
    func decodeNil() -> Bool {
        guard node.start < node.source.reader.count else { return false }
        let first = node.source.reader[node.start]
        let isNull = first == Simple.null || first == Simple.undefined
        if isNull { node.knownEnd = node.start + 1 }
        return isNull
    }

    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try decodeAny(type) }

    @inline(__always)
    private func decodeAny<Value: Decodable>(_ type: Value.Type) throws -> Value {
        var offset = node.start
        do throws(WireFailure) {
            let value = try node.source.reader.known(type, &offset, node.levels)
            node.knownEnd = offset
            return value
        } catch {
            // The type's own `init(from:)` reads the same item, so it gets this node.
            if case .unknownType = error { return try decodeItself(type, node) }
            throw node.failure(error, type)
        }
    }
}

extension SingleValueDecoding {
    func decode(_ type: Int128.Type) throws -> Int128 { try decodeAny(type) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try decodeAny(type) }
}

/// The position in an array where the next element is expected.
struct ArrayCursor {
    /// The number of elements; nil for an indefinite length.
    let count: Int?

    /// The remaining nesting depth of the elements.
    let levels: Int

    /// The offset of the next element.
    private(set) var next: Int

    /// The number of elements before the next element.
    private(set) var consumedCount = 0

    init(_ reader: ByteReader, _ start: Int, _ levels: Int) throws(WireFailure) {
        var offset = start
        let outside = try reader.skipTags(&offset, levels)
        guard reader[offset] & MajorType.mask == MajorType.array else { throw reader.mismatch(offset) }
        self.levels = try reader.inside(outside)
        count = try reader.entryCount(&offset, itemsPerEntry: 1)
        next = offset
    }

    /// Whether all elements have been read; false for a truncated array, so that the next read throws.
    @inline(__always)
    func isAtEnd(_ reader: ByteReader) -> Bool {
        if let count { return consumedCount >= count }
        return next < reader.count && reader[next] == Simple.break
    }

    @inline(__always)
    mutating func advance(to end: Int) {
        next = end
        consumedCount += 1
    }

    /// The offset after the array; nil before its last element has been read.
    @inline(__always)
    func end(_ reader: ByteReader) -> Int? {
        guard isAtEnd(reader) else { return nil }
        return count == nil ? next + 1 : next
    }

    /// The number of elements, counted if the length is indefinite; nil if the array is malformed.
    ///
    /// - Complexity: O(1) for a definite length, otherwise O(n) in the remaining bytes.
    func countingElements(_ reader: ByteReader) -> Int? {
        if let count { return count }
        var cursor = self
        while !cursor.isAtEnd(reader) {
            var offset = cursor.next
            do throws(WireFailure) {
                try reader.skip(&offset, levels)
            } catch {
                // `count` cannot throw; reading the element does.
                return nil
            }
            cursor.advance(to: offset)
        }
        return cursor.consumedCount
    }
}
