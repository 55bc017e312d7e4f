/// Decodes a map as a keyed container.
struct KeyedDecoding<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let node: DecodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    /// The keys that `Key` accepts, in encoded order; empty for a malformed map, whose values cannot be read either.
    var allKeys: [Key] { node.namesOrEmpty().compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { node.contains(key) }

    func decodeNil(forKey key: Key) throws -> Bool {
        try node.decodeNil(key)
    }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try node.decode(type, key)
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
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

extension KeyedDecoding {
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.bool(&offset) }
    }

    func decode(_ type: String.Type, forKey key: Key) throws -> String {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.string(&offset) }
    }

    func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.double(&offset) }
    }

    func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.float(&offset) }
    }

    func decode(_ type: Int.Type, forKey key: Key) throws -> Int {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int.self) }
    }

    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int8.self) }
    }

    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int16.self) }
    }

    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int32.self) }
    }

    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int64.self) }
    }

    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: Int128.self)
        }
    }

    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt.self) }
    }

    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt8.self) }
    }

    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt16.self)
        }
    }

    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt32.self)
        }
    }

    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt64.self)
        }
    }

    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 {
        try node.read(type, key) { (reader, offset) throws(WireFailure) in try reader.integer(&offset, as: UInt128.self)
        }
    }

}

extension KeyedDecoding {
    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: Int128.Type, forKey key: Key) throws -> Int128? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

    func decodeIfPresent(_ type: UInt128.Type, forKey key: Key) throws -> UInt128? {
        try node.hasValue(key) ? decode(type, forKey: key) : nil
    }

}
