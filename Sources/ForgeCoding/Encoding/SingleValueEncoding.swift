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
