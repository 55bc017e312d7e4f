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
