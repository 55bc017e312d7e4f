import Foundation

extension ByteReader {
    /// Reads a value of a type that is read without its `init(from:)`.
    ///
    /// - Throws: ``WireFailure/unknownType`` for any other type, with nothing read. It is thrown, because an optional
    ///   result would look up the metadata of `Optional<Value>` in every call.
    @inline(__always)
    func known<Value>(_ type: Value.Type, _ offset: inout Int) throws(WireFailure) -> Value {
        if isSame(type, Int.self) {
            return reinterpret(try integer(&offset, as: Int.self), as: type)
        } else if isSame(type, String.self) {
            return reinterpret(try string(&offset), as: type)
        } else if isSame(type, Double.self) {
            return reinterpret(try double(&offset), as: type)
        } else if isSame(type, Bool.self) {
            return reinterpret(try bool(&offset), as: type)
        } else if isSame(type, Date.self) {
            return reinterpret(try date(&offset), as: type)
        } else if isSame(type, Data.self) {
            return reinterpret(try data(&offset), as: type)
        } else if isSame(type, UUID.self) {
            return reinterpret(try uuid(&offset), as: type)
        } else if isSame(type, URL.self) {
            return reinterpret(try url(&offset), as: type)
        } else if isSame(type, Decimal.self) {
            return reinterpret(try decimal(&offset), as: type)
        }
        return try knownNumberOrList(type, &offset)
    }

    private func knownNumberOrList<Value>(
        _ type: Value.Type, _ offset: inout Int
    ) throws(WireFailure) -> Value {
        if isSame(type, Float.self) {
            return reinterpret(try float(&offset), as: type)
        } else if isSame(type, Int64.self) {
            return reinterpret(try integer(&offset, as: Int64.self), as: type)
        } else if isSame(type, UInt64.self) {
            return reinterpret(try integer(&offset, as: UInt64.self), as: type)
        } else if isSame(type, UInt.self) {
            return reinterpret(try integer(&offset, as: UInt.self), as: type)
        } else if isSame(type, Int32.self) {
            return reinterpret(try integer(&offset, as: Int32.self), as: type)
        } else if isSame(type, UInt32.self) {
            return reinterpret(try integer(&offset, as: UInt32.self), as: type)
        } else if isSame(type, Int16.self) {
            return reinterpret(try integer(&offset, as: Int16.self), as: type)
        } else if isSame(type, UInt16.self) {
            return reinterpret(try integer(&offset, as: UInt16.self), as: type)
        } else if isSame(type, Int8.self) {
            return reinterpret(try integer(&offset, as: Int8.self), as: type)
        } else if isSame(type, UInt8.self) {
            return reinterpret(try integer(&offset, as: UInt8.self), as: type)
        } else if isSame(type, Int128.self) {
            return reinterpret(try integer(&offset, as: Int128.self), as: type)
        } else if isSame(type, UInt128.self) {
            return reinterpret(try integer(&offset, as: UInt128.self), as: type)
        }
        return try knownList(type, &offset)
    }

    private func knownList<Value>(
        _ type: Value.Type, _ offset: inout Int
    ) throws(WireFailure) -> Value {
        if isSame(type, [UInt8].self) {
            return reinterpret(try byteArray(&offset), as: type)
        } else if isSame(type, [Int].self) {
            let list = try list(&offset) { (reader, at) throws(WireFailure) in try reader.integer(&at, as: Int.self) }
            return reinterpret(list, as: type)
        } else if isSame(type, [Double].self) {
            return reinterpret(
                try list(&offset) { (reader, at) throws(WireFailure) in try reader.double(&at) }, as: type)
        } else if isSame(type, [Float].self) {
            return reinterpret(
                try list(&offset) { (reader, at) throws(WireFailure) in try reader.float(&at) }, as: type)
        } else if isSame(type, [String].self) {
            return reinterpret(
                try list(&offset) { (reader, at) throws(WireFailure) in try reader.string(&at) }, as: type)
        }
        throw .unknownType
    }

    /// Reads bytes from a byte string, or from an array of numbers as other encoders write them.
    private func byteArray(_ offset: inout Int) throws(WireFailure) -> [UInt8] {
        let content = try skipTags(&offset)
        if self[offset] & MajorType.mask == MajorType.array {
            return try content.list(&offset) { (reader, at) throws(WireFailure) in
                try reader.integer(&at, as: UInt8.self)
            }
        }
        return try byteString(&offset)
    }

    /// Reads an optional of a common type, so that a top-level one needs no container.
    ///
    /// - Throws: ``WireFailure/unknownType`` for any other type, with nothing read.
    func knownOptional<Value>(_ type: Value.Type, _ offset: inout Int) throws(WireFailure) -> Value {
        if isSame(type, Int?.self) {
            return reinterpret(try wrapped(Int.self, &offset), as: type)
        } else if isSame(type, String?.self) {
            return reinterpret(try wrapped(String.self, &offset), as: type)
        } else if isSame(type, Double?.self) {
            return reinterpret(try wrapped(Double.self, &offset), as: type)
        } else if isSame(type, Bool?.self) {
            return reinterpret(try wrapped(Bool.self, &offset), as: type)
        } else if isSame(type, Date?.self) {
            return reinterpret(try wrapped(Date.self, &offset), as: type)
        } else if isSame(type, Data?.self) {
            return reinterpret(try wrapped(Data.self, &offset), as: type)
        } else if isSame(type, URL?.self) {
            return reinterpret(try wrapped(URL.self, &offset), as: type)
        } else if isSame(type, Float?.self) {
            return reinterpret(try wrapped(Float.self, &offset), as: type)
        }
        throw .unknownType
    }

    @inline(__always)
    private func wrapped<Wrapped>(_ type: Wrapped.Type, _ offset: inout Int) throws(WireFailure) -> Wrapped? {
        if try isNull(offset) {
            offset += 1
            return nil
        }
        return try known(type, &offset)
    }
}

extension ByteReader {
    /// Reads a date from seconds since 1970 (tag 1) or since 2001 (the private tag).
    ///
    /// An untagged number is not a date: its epoch is unknown.
    func date(_ offset: inout Int) throws(WireFailure) -> Date {
        let start = offset
        var content = self
        switch try content.knownTag(&offset) {
        case Tag.referenceDate: return Date(timeIntervalSinceReferenceDate: try content.double(&offset))
        case Tag.epochDate: return Date(timeIntervalSince1970: try content.double(&offset))
        case let tag?: throw .mismatch(found: Tag.name(of: tag) ?? "a tagged value")
        case nil: throw mismatch(start)
        }
    }

    func data(_ offset: inout Int) throws(WireFailure) -> Data {
        try skipTags(&offset)
        let first = self[offset]
        guard first & MajorType.mask == MajorType.bytes, first & ~MajorType.mask != MajorType.indefinite else {
            return Data(try byteString(&offset))
        }
        let length = try head(&offset)
        return Data(bytes(try content(length, &offset)))
    }

    func url(_ offset: inout Int) throws(WireFailure) -> URL {
        let start = offset
        guard let url = URL(string: try string(&offset)) else { throw .invalidContent(offset: start) }
        return url
    }

    func uuid(_ offset: inout Int) throws(WireFailure) -> UUID {
        let start = offset
        let bytes = try byteString(&offset, of: Tag.uuid)
        guard bytes.count == MemoryLayout<uuid_t>.size else { throw .invalidContent(offset: start) }
        return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
    }

    /// Reads a decimal, an integer of up to 128 bits, or the shortest text of a floating-point number.
    func decimal(_ offset: inout Int) throws(WireFailure) -> Decimal {
        let start = offset
        guard let value = try number(&offset).decimal else { throw .outOfRange(offset: start) }
        return value
    }
}
