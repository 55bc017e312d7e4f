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

    /// The node of a nested container; the same key and form return the same container.
    private func nested(_ form: EncodingNode.Form, _ key: Key) -> EncodingNode {
        node.nestedNode(key, form: form) ?? deferredNode(key).opened(form)
    }

    private func deferredNode(_ key: some CodingKey) -> EncodingNode {
        guard node.state == .active else { return node.closedContainer(.nothing) }
        _ = node.beginEntry(key)
        let child = node.deferContainer(.key(key))
        node.endEntry()
        return child
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
