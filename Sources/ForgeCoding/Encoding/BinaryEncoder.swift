/// Encodes `Encodable` values as CBOR (RFC 8949).
///
/// Lengths are definite and integers take their shortest form; `Double`, `Float`, `Date` and `Decimal` keep every bit.
/// The semantics are those of `JSONEncoder`: nested containers may be filled in any order, the last value of a key
/// wins, a nested container adds to what was encoded under its key before, and a type that writes nothing becomes an
/// empty map.
public struct BinaryEncoder: Sendable {
    /// The contents of `encoder.userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// The maximum nesting depth of arrays, maps and tags; 64, the default of ``BinaryDecoder``.
    public var maximumDepth: Int = 64

    /// Creates an encoder with the default limits.
    public init() {}

    /// Encodes a value.
    ///
    /// - Throws: `EncodingError.invalidValue` with the coding path for a value that nests too deep, writes nothing, or
    ///   requests conflicting containers; any error that the value throws. An error of the encoder never contains the
    ///   value.
    /// - Complexity: O(bytes written).
    public func encode<T: Encodable>(_ value: T) throws -> [UInt8] {
        let sink = makeSink()
        try Self.encode(value, into: sink)
        return sink.bytes
    }

    func makeSink() -> ByteSink {
        ByteSink(
            capacity: 256, maximumDepth: maximumDepth, userInfo: userInfo)
    }

    /// Encodes a value with the limits of the sink.
    @inline(__always)
    static func encode<T: Encodable>(_ value: T, into sink: ByteSink) throws {
        do throws(WireFailure) {
            if try sink.appendKnown(value, depth: 0) { return }
            if try sink.appendKnownOptional(value, depth: 0) { return }
        } catch {
            throw EncodingError.invalidValue(
                WithheldValue(), .init(codingPath: [], debugDescription: error.reason))
        }
        try encodeSelf(value, into: sink)
    }

    private static func encodeSelf<T: Encodable>(_ value: T, into sink: ByteSink) throws {
        let node = EncodingNode(sink: sink, parent: nil, step: .none, depth: 0)
        defer { node.end() }
        try value.encode(to: node)
        guard node.form != .nothing else { throw node.invalid("the value of type \(T.self) encodes nothing") }
        node.finish()
        if let failure = sink.failure { throw failure }
    }
}

/// Encodes a map as a keyed container.
struct KeyedEncoding<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: EncodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil(forKey key: Key) throws {
        guard try node.acceptsWrite(.keyed) else { return }
        _ = node.beginEntry(key)
        node.sink.appendNull()
        node.endEntry()
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws { try encodeAny(value, key) }

    // The protocol has a default for these two, which would take the place of the generic method.
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

    func superEncoder() -> any Encoder { deferredNode(SuperKey(), isSuper: true) }

    func superEncoder(forKey key: Key) -> any Encoder { deferredNode(key, isSuper: true) }

    private func nested(_ form: EncodingNode.Form, _ key: Key) -> EncodingNode {
        deferredNode(key, isSuper: false).opened(form)
    }

    private func deferredNode(_ key: some CodingKey, isSuper: Bool) -> EncodingNode {
        guard node.state == .active else { return node.closedContainer(.nothing) }
        return node.deferEntry(key, isSuper: isSuper)
    }
}

/// Encodes an array as an unkeyed container.
struct UnkeyedEncoding: UnkeyedEncodingContainer {
    let node: EncodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    var count: Int { node.count }

    func encodeNil() throws {
        guard try node.acceptsWrite(.unkeyed) else { return }
        node.sink.appendNull()
        node.countEntry()
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value) throws { try encodeAny(value) }

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

/// The single-value container of an item.
struct SingleValueEncoding: SingleValueEncodingContainer {
    let node: EncodingNode

    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil() throws { try node.encodeNilInPlace() }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value) throws { try encodeAny(value) }

    func encode(_ value: Int128) throws { try encodeAny(value) }

    func encode(_ value: UInt128) throws { try encodeAny(value) }

    @inline(__always)
    private func encodeAny<Value: Encodable>(_ value: Value) throws {
        guard try node.acceptsWrite(node.form) else { return }
        try node.encodeInPlace(value)
    }
}
