/// The single-value container of an item.
struct SingleValueDecoding: SingleValueDecodingContainer {
    let node: DecodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    @inline(__always)
    private func read<Value>(
        _ type: Value.Type, _ body: (ByteReader, inout Int) throws(WireFailure) -> Value
    ) throws -> Value {
        var offset = node.start
        do throws(WireFailure) {
            let value = try body(node.reader, &offset)
            node.knownEnd = offset
            return value
        } catch {
            throw node.failure(error, type)
        }
    }

    /// Whether the value is null or undefined. Returns false at the end of the input; every other read throws there.
    func decodeNil() -> Bool {
        let reader = node.source.reader
        guard node.start < reader.count else { return false }
        let isNull = reader[node.start] == Simple.null || reader[node.start] == Simple.undefined
        if isNull { node.knownEnd = node.start + 1 }
        return isNull
    }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        var offset = node.start
        do throws(WireFailure) {
            let value = try node.reader.known(type, &offset)
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
    func decode(_ type: Bool.Type) throws -> Bool {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.bool(&offset) }
    }

    func decode(_ type: String.Type) throws -> String {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.string(&offset) }
    }

    func decode(_ type: Double.Type) throws -> Double {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.double(&offset) }
    }

    func decode(_ type: Float.Type) throws -> Float {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.float(&offset) }
    }

    func decode(_ type: Int.Type) throws -> Int {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int.self) }
    }

    func decode(_ type: Int8.Type) throws -> Int8 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int8.self) }
    }

    func decode(_ type: Int16.Type) throws -> Int16 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int16.self) }
    }

    func decode(_ type: Int32.Type) throws -> Int32 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int32.self) }
    }

    func decode(_ type: Int64.Type) throws -> Int64 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int64.self) }
    }

    func decode(_ type: Int128.Type) throws -> Int128 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int128.self) }
    }

    func decode(_ type: UInt.Type) throws -> UInt {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt.self) }
    }

    func decode(_ type: UInt8.Type) throws -> UInt8 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt8.self) }
    }

    func decode(_ type: UInt16.Type) throws -> UInt16 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt16.self) }
    }

    func decode(_ type: UInt32.Type) throws -> UInt32 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt32.self) }
    }

    func decode(_ type: UInt64.Type) throws -> UInt64 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt64.self) }
    }

    func decode(_ type: UInt128.Type) throws -> UInt128 {
        try read(type) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt128.self) }
    }

}
