/// Encodes a map as a keyed container.
struct KeyedEncoding<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: EncodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    @inline(__always)
    private func write(_ key: Key, _ body: () -> Void) throws {
        guard try node.acceptsWrite(.keyed) else { return }
        _ = node.beginEntry(key)
        body()
        node.endEntry()
    }

    func encodeNil(forKey key: Key) throws {
        try write(key) { node.sink.appendNull() }
    }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        try encodeAny(value, key)
    }

    func encode(_ value: Int128, forKey key: Key) throws { try encodeAny(value, key) }

    func encode(_ value: UInt128, forKey key: Key) throws { try encodeAny(value, key) }

    @inline(__always)
    private func encodeAny<Value: Encodable>(_ value: Value, _ key: Key) throws {
        guard try node.acceptsWrite(.keyed) else { return }
        let entry = node.beginEntry(key)
        do {
            try node.encode(value, step: .key(key), entry: entry)
        } catch {
            node.replaced = nil
            throw error
        }
        node.endEntry()
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        KeyedEncodingContainer(KeyedEncoding<NestedKey>(node: nested(.keyed, key)))
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        UnkeyedEncoding(node: nested(.unkeyed, key))
    }

    func superEncoder() -> any Encoder { deferredNode(SuperKey()) }

    func superEncoder(forKey key: Key) -> any Encoder { deferredNode(key) }

    private func nested(_ form: EncodingNode.Form, _ key: Key) -> EncodingNode {
        deferredNode(key).opened(form)
    }

    private func deferredNode(_ key: some CodingKey) -> EncodingNode {
        guard node.state == .active else { return node.closedContainer(.nothing) }
        return node.deferEntry(key)
    }
}

extension KeyedEncoding {
    func encode(_ value: Bool, forKey key: Key) throws { try write(key) { node.sink.append(value) } }
    func encode(_ value: String, forKey key: Key) throws { try write(key) { node.sink.append(value) } }
    func encode(_ value: Double, forKey key: Key) throws { try write(key) { node.sink.append(value) } }
    func encode(_ value: Float, forKey key: Key) throws { try write(key) { node.sink.append(value) } }
    func encode(_ value: Int, forKey key: Key) throws { try write(key) { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int8, forKey key: Key) throws { try write(key) { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int16, forKey key: Key) throws { try write(key) { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int32, forKey key: Key) throws { try write(key) { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int64, forKey key: Key) throws { try write(key) { node.sink.appendSigned(value) } }
    func encode(_ value: UInt, forKey key: Key) throws { try write(key) { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt8, forKey key: Key) throws { try write(key) { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt16, forKey key: Key) throws { try write(key) { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt32, forKey key: Key) throws { try write(key) { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt64, forKey key: Key) throws { try write(key) { node.sink.appendUnsigned(value) } }
}

/// Encodes an array as an unkeyed container.
struct UnkeyedEncoding: UnkeyedEncodingContainer {
    let node: EncodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    var count: Int { node.count }

    @inline(__always)
    private func write(_ body: () -> Void) throws {
        guard try node.acceptsWrite(.unkeyed) else { return }
        body()
        node.countEntry()
    }

    func encodeNil() throws {
        try write { node.sink.appendNull() }
    }

    func encode<Value: Encodable>(_ value: Value) throws {
        try encodeAny(value)
    }

    func encode(_ value: Int128) throws { try encodeAny(value) }

    func encode(_ value: UInt128) throws { try encodeAny(value) }

    @inline(__always)
    private func encodeAny<Value: Encodable>(_ value: Value) throws {
        guard try node.acceptsWrite(.unkeyed) else { return }
        try node.encode(value, step: .index(node.count), entry: node.sink.count)
        node.countEntry()
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type
    ) -> KeyedEncodingContainer<NestedKey> {
        KeyedEncodingContainer(KeyedEncoding<NestedKey>(node: deferredNode().opened(.keyed)))
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        UnkeyedEncoding(node: deferredNode().opened(.unkeyed))
    }

    func superEncoder() -> any Encoder { deferredNode() }

    private func deferredNode() -> EncodingNode {
        guard node.state == .active else { return node.closedContainer(.nothing) }
        let child = node.deferContainer(.index(node.count))
        node.countEntry()
        return child
    }
}

extension UnkeyedEncoding {
    func encode(_ value: Bool) throws { try write { node.sink.append(value) } }
    func encode(_ value: String) throws { try write { node.sink.append(value) } }
    func encode(_ value: Double) throws { try write { node.sink.append(value) } }
    func encode(_ value: Float) throws { try write { node.sink.append(value) } }
    func encode(_ value: Int) throws { try write { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int8) throws { try write { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int16) throws { try write { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int32) throws { try write { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int64) throws { try write { node.sink.appendSigned(value) } }
    func encode(_ value: UInt) throws { try write { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt8) throws { try write { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt16) throws { try write { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt32) throws { try write { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt64) throws { try write { node.sink.appendUnsigned(value) } }
}

/// The single-value container of an item.
struct SingleValueEncoding: SingleValueEncodingContainer {
    let node: EncodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil() throws {
        try node.writeInPlace { node.sink.appendNull() }
    }

    func encode<Value: Encodable>(_ value: Value) throws {
        guard try node.acceptsWrite(node.form) else { return }
        try node.encodeInPlace(value)
    }
}

extension SingleValueEncoding {
    func encode(_ value: Bool) throws { try node.writeInPlace { node.sink.append(value) } }
    func encode(_ value: String) throws { try node.writeInPlace { node.sink.append(value) } }
    func encode(_ value: Double) throws { try node.writeInPlace { node.sink.append(value) } }
    func encode(_ value: Float) throws { try node.writeInPlace { node.sink.append(value) } }
    func encode(_ value: Int) throws { try node.writeInPlace { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int8) throws { try node.writeInPlace { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int16) throws { try node.writeInPlace { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int32) throws { try node.writeInPlace { node.sink.appendSigned(Int64(value)) } }
    func encode(_ value: Int64) throws { try node.writeInPlace { node.sink.appendSigned(value) } }
    func encode(_ value: UInt) throws { try node.writeInPlace { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt8) throws { try node.writeInPlace { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt16) throws { try node.writeInPlace { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt32) throws { try node.writeInPlace { node.sink.appendUnsigned(UInt64(value)) } }
    func encode(_ value: UInt64) throws { try node.writeInPlace { node.sink.appendUnsigned(value) } }
    func encode(_ value: Int128) throws {
        try node.writeInPlace { () throws(WireFailure) in try node.sink.append(value, depth: node.depth) }
    }
    func encode(_ value: UInt128) throws {
        try node.writeInPlace { () throws(WireFailure) in try node.sink.append(value, depth: node.depth) }
    }
}
