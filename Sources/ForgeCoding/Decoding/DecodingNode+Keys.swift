extension DecodingNode {
    @inline(__always)
    private func find(_ key: some CodingKey) throws -> MapCursor.Match? {
        do throws(WireFailure) {
            return try match(key)
        } catch {
            throw failure(error, type(of: key))
        }
    }

    @inline(__always)
    private func require(_ key: some CodingKey) throws -> MapCursor.Match {
        guard let match = try find(key) else { throw missing(key) }
        return match
    }

    private func missing(_ key: some CodingKey) -> DecodingError {
        .keyNotFound(
            key,
            .init(
                codingPath: codingPath, debugDescription: "the map has no key \"\(key.stringValue)\"",
                underlyingError: WireFailure.missing))
    }

    /// Reads the value under a key with `body`.
    @inline(__always)
    func read<Value>(
        _ type: any Any.Type, _ key: some CodingKey,
        _ body: (ByteReader, inout Int) throws(WireFailure) -> Value
    ) throws -> Value {
        let match = try require(key)
        var offset = match.value
        do throws(WireFailure) {
            let value = try body(content, &offset)
            try advance(match, to: offset)
            return value
        } catch {
            throw failure(error, type, step: .key(key))
        }
    }

    /// Decodes the value under a key.
    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, _ key: some CodingKey) throws -> Value {
        let match = try require(key)
        var offset = match.value
        let value = try decode(type, &offset, step: .key(key))
        do throws(WireFailure) {
            try advance(match, to: offset)
        } catch {
            throw failure(error, type, step: .key(key))
        }
        return value
    }

    /// Decodes the value at an offset and advances the offset past it.
    @inline(__always)
    func decode<Value: Decodable>(
        _ type: Value.Type, _ offset: inout Int, step: @autoclosure () -> PathStep
    ) throws -> Value {
        do throws(WireFailure) {
            return try content.known(type, &offset)
        } catch {
            if case .unknownType = error { return try decodeSelf(type, &offset, step: step()) }
            throw failure(error, type, step: step())
        }
    }

    /// Whether the value under a key is null; skips a null.
    @inline(__always)
    private func isNull(_ match: MapCursor.Match, _ key: some CodingKey) throws -> Bool {
        do throws(WireFailure) {
            guard try source.reader.isNull(match.value) else { return false }
            try advance(match, to: match.value + 1)
            return true
        } catch {
            throw failure(error, type(of: key), step: .key(key))
        }
    }

    func decodeNil(_ key: some CodingKey) throws -> Bool {
        try isNull(require(key), key)
    }

    /// Whether the map has a value other than null under a key.
    @inline(__always)
    func hasValue(_ key: some CodingKey) throws -> Bool {
        guard let match = try find(key) else { return false }
        return try !isNull(match, key)
    }

    /// Whether the map has a key; true for a malformed map, because `contains` cannot throw and reading the value does.
    func contains(_ key: some CodingKey) -> Bool {
        do {
            return try find(key) != nil
        } catch {
            return true
        }
    }

    func namesOrEmpty() -> [String] {
        do throws(WireFailure) {
            return try keyNames()
        } catch {
            return []
        }
    }

    func nested(_ key: some CodingKey) throws -> DecodingNode {
        nested(try require(key).value, step: .key(key))
    }
}
