extension DecodingNode {
    /// The offset of the value under a key; nil if there is none.
    @inline(__always)
    private func find(_ key: some CodingKey) throws -> Int? {
        var name = key.stringValue
        var result: Result<Int?, WireFailure> = .success(nil)
        name.withUTF8 { name in
            do throws(WireFailure) {
                result = .success(try map?.find(name, source.reader))
            } catch {
                result = .failure(error)
            }
        }
        do throws(WireFailure) {
            return try result.get()
        } catch {
            throw failure(error, type(of: key))
        }
    }

    @inline(__always)
    private func require(_ key: some CodingKey) throws -> Int {
        guard let offset = try find(key) else { throw missing(key) }
        return offset
    }

    private func missing(_ key: some CodingKey) -> DecodingError {
        .keyNotFound(key, .init(codingPath: codingPath, debugDescription: "the map has no key \"\(key.stringValue)\""))
    }

    @inline(__always)
    private func advance(_ key: some CodingKey, to end: Int) throws(WireFailure) {
        var name = key.stringValue
        var failure: WireFailure?
        name.withUTF8 { name in
            do throws(WireFailure) {
                try map?.advance(name, to: end, source.reader)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }

    /// Reads the value under a key with `body`.
    @inline(__always)
    func read<Value>(
        _ type: any Any.Type, _ key: some CodingKey,
        _ body: (ByteReader, inout Int) throws(WireFailure) -> Value
    ) throws -> Value {
        var offset = try require(key)
        let start = offset
        do throws(WireFailure) {
            let value = try body(source.reader, &offset)
            // A look at whether the value is null moves nothing.
            if offset != start { try advance(key, to: offset) }
            return value
        } catch {
            throw failure(error, type, step: .key(key))
        }
    }

    /// Decodes the value under a key.
    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, _ key: some CodingKey) throws -> Value {
        var offset = try require(key)
        let value = try decode(type, &offset, step: .key(key))
        do throws(WireFailure) {
            try advance(key, to: offset)
        } catch {
            throw failure(error, type, step: .key(key))
        }
        return value
    }

    /// Decodes a value at an offset and moves the offset behind it.
    @inline(__always)
    func decode<Value: Decodable>(
        _ type: Value.Type, _ offset: inout Int, step: @autoclosure () -> PathStep
    ) throws -> Value {
        do throws(WireFailure) {
            if let value = try source.reader.known(type, &offset, levels: levels) { return value }
        } catch {
            throw failure(error, type, step: step())
        }
        return try decodeSelf(type, &offset, step: step())
    }

    /// Whether there is a key with a value other than null.
    @inline(__always)
    func hasValue(_ key: some CodingKey) throws -> Bool {
        guard var offset = try find(key) else { return false }
        do throws(WireFailure) {
            guard try source.reader.isNull(offset) else { return true }
            offset += 1
            try advance(key, to: offset)
        } catch {
            throw failure(error, type(of: key), step: .key(key))
        }
        return false
    }

    /// Whether there is a key, with whatever value; `contains` cannot throw, so that a malformed map says so when it is read.
    func contains(_ key: some CodingKey) -> Bool {
        do {
            return try find(key) != nil
        } catch {
            return true
        }
    }

    func names() -> [String] {
        do throws(WireFailure) {
            return try map?.names(source.reader) ?? []
        } catch {
            return []
        }
    }

    func nested(_ key: some CodingKey) throws -> DecodingNode {
        nested(try require(key), step: .key(key))
    }
}
