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

    /// The reader of the value.
    @inline(__always)
    var reader: ByteReader { source.reader.limited(to: levels) }

    /// The reader of the content of the value's container.
    @inline(__always)
    var content: ByteReader { source.reader.limited(to: contentLevels) }

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
            let cursor = try ArrayCursor(reader, start)
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
        child.map.isIndexed = false
        if child.index != nil { child.index = nil }
        return child
    }

    /// The offset after the value; scans the value if its last entry has not been read.
    func end() throws(WireFailure) -> Int {
        if let knownEnd { return knownEnd }
        if isMap { return try endOfMap() }
        var offset = start
        try source.reader.skip(&offset, levels: levels)
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
