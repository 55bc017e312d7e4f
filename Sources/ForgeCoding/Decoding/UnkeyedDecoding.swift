/// Decodes an array as an unkeyed container. An element that fails to decode remains the next one.
struct UnkeyedDecoding: UnkeyedDecodingContainer {
    let node: DecodingNode
    var cursor: ArrayCursor

    var codingPath: [any CodingKey] { node.codingPath }

    var count: Int? { cursor.countingElements(node.source.reader) }

    var currentIndex: Int { cursor.consumedCount }

    var isAtEnd: Bool { cursor.isAtEnd(node.source.reader) }

    /// Reads the next element with `body` and advances past it.
    @inline(__always)
    private mutating func read<Value>(
        _ type: any Any.Type, _ body: (ByteReader, inout Int) throws(WireFailure) -> Value
    ) throws -> Value {
        try requireElement(type)
        var offset = cursor.next
        do throws(WireFailure) {
            let value = try body(node.content, &offset)
            advance(to: offset)
            return value
        } catch {
            throw node.failure(error, type, step: .index(cursor.consumedCount))
        }
    }

    @inline(__always)
    private mutating func advance(to end: Int) {
        cursor.advance(to: end)
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

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
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
    mutating func decode(_ type: Bool.Type) throws -> Bool {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.bool(&offset) }
    }

    mutating func decode(_ type: String.Type) throws -> String {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.string(&offset) }
    }

    mutating func decode(_ type: Double.Type) throws -> Double {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.double(&offset) }
    }

    mutating func decode(_ type: Float.Type) throws -> Float {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.float(&offset) }
    }

    mutating func decode(_ type: Int.Type) throws -> Int {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int.self) }
    }

    mutating func decode(_ type: Int8.Type) throws -> Int8 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int8.self) }
    }

    mutating func decode(_ type: Int16.Type) throws -> Int16 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int16.self) }
    }

    mutating func decode(_ type: Int32.Type) throws -> Int32 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int32.self) }
    }

    mutating func decode(_ type: Int64.Type) throws -> Int64 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int64.self) }
    }

    mutating func decode(_ type: Int128.Type) throws -> Int128 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int128.self) }
    }

    mutating func decode(_ type: UInt.Type) throws -> UInt {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt.self) }
    }

    mutating func decode(_ type: UInt8.Type) throws -> UInt8 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt8.self) }
    }

    mutating func decode(_ type: UInt16.Type) throws -> UInt16 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt16.self) }
    }

    mutating func decode(_ type: UInt32.Type) throws -> UInt32 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt32.self) }
    }

    mutating func decode(_ type: UInt64.Type) throws -> UInt64 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt64.self) }
    }

    mutating func decode(_ type: UInt128.Type) throws -> UInt128 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt128.self) }
    }

}
