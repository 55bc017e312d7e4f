import Foundation

extension ByteReader {
    /// Reads a value of a type that is read without its `init(from:)`.
    ///
    /// - Throws: ``WireFailure/unknownType`` for any other type, with nothing read. It is thrown, because an optional
    ///   result would look up the metadata of `Optional<Value>` in every call.
    @inline(__always)
    func known<Value>(_ type: Value.Type, _ offset: inout Int, _ levels: Int) throws(WireFailure) -> Value {
        if isSame(type, Int.self) {
            return reinterpret(try integer(&offset, levels, as: Int.self), as: type)
        } else if isSame(type, String.self) {
            return reinterpret(try string(&offset, levels), as: type)
        } else if isSame(type, Double.self) {
            return reinterpret(try double(&offset, levels), as: type)
        } else if isSame(type, Bool.self) {
            return reinterpret(try bool(&offset, levels), as: type)
        } else if isSame(type, Date.self) {
            return reinterpret(try date(&offset, levels), as: type)
        } else if isSame(type, Data.self) {
            return reinterpret(try data(&offset, levels), as: type)
        } else if isSame(type, UUID.self) {
            return reinterpret(try uuid(&offset, levels), as: type)
        } else if isSame(type, URL.self) {
            return reinterpret(try url(&offset, levels), as: type)
        } else if isSame(type, Decimal.self) {
            return reinterpret(try decimal(&offset, levels), as: type)
        }
        return try knownNumberOrList(type, &offset, levels)
    }

    private func knownNumberOrList<Value>(
        _ type: Value.Type, _ offset: inout Int, _ levels: Int
    ) throws(WireFailure) -> Value {
        if isSame(type, Float.self) {
            return reinterpret(try float(&offset, levels), as: type)
        } else if isSame(type, Int64.self) {
            return reinterpret(try integer(&offset, levels, as: Int64.self), as: type)
        } else if isSame(type, UInt64.self) {
            return reinterpret(try integer(&offset, levels, as: UInt64.self), as: type)
        } else if isSame(type, UInt.self) {
            return reinterpret(try integer(&offset, levels, as: UInt.self), as: type)
        } else if isSame(type, Int32.self) {
            return reinterpret(try integer(&offset, levels, as: Int32.self), as: type)
        } else if isSame(type, UInt32.self) {
            return reinterpret(try integer(&offset, levels, as: UInt32.self), as: type)
        } else if isSame(type, Int16.self) {
            return reinterpret(try integer(&offset, levels, as: Int16.self), as: type)
        } else if isSame(type, UInt16.self) {
            return reinterpret(try integer(&offset, levels, as: UInt16.self), as: type)
        } else if isSame(type, Int8.self) {
            return reinterpret(try integer(&offset, levels, as: Int8.self), as: type)
        } else if isSame(type, UInt8.self) {
            return reinterpret(try integer(&offset, levels, as: UInt8.self), as: type)
        } else if isSame(type, Int128.self) {
            return reinterpret(try integer(&offset, levels, as: Int128.self), as: type)
        } else if isSame(type, UInt128.self) {
            return reinterpret(try integer(&offset, levels, as: UInt128.self), as: type)
        }
        return try knownList(type, &offset, levels)
    }

    private func knownList<Value>(
        _ type: Value.Type, _ offset: inout Int, _ levels: Int
    ) throws(WireFailure) -> Value {
        if isSame(type, [UInt8].self) {
            return reinterpret(try byteArray(&offset, levels), as: type)
        } else if isSame(type, [Int].self) {
            let list = try list(&offset, levels) { (at, levels) throws(WireFailure) in
                try integer(&at, levels, as: Int.self)
            }
            return reinterpret(list, as: type)
        } else if isSame(type, [Double].self) {
            return reinterpret(
                try list(&offset, levels) { (at, levels) throws(WireFailure) in try double(&at, levels) }, as: type)
        } else if isSame(type, [Float].self) {
            return reinterpret(
                try list(&offset, levels) { (at, levels) throws(WireFailure) in try float(&at, levels) }, as: type)
        } else if isSame(type, [String].self) {
            return reinterpret(
                try list(&offset, levels) { (at, levels) throws(WireFailure) in try string(&at, levels) }, as: type)
        }
        throw .unknownType
    }

    /// Reads bytes from a byte string, or from an array of numbers as other encoders write them.
    private func byteArray(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> [UInt8] {
        var start = offset
        try skipTags(&start, levels)
        guard self[start] & MajorType.mask == MajorType.array else { return try byteString(&offset, levels) }
        return try list(&offset, levels) { (at, levels) throws(WireFailure) in
            try integer(&at, levels, as: UInt8.self)
        }
    }

    /// Reads an optional of a common type, so that a top-level one needs no container.
    ///
    /// - Throws: ``WireFailure/unknownType`` for any other type, with nothing read.
    func knownOptional<Value>(_ type: Value.Type, _ offset: inout Int, _ levels: Int) throws(WireFailure) -> Value {
        if isSame(type, Int?.self) {
            return reinterpret(try wrapped(Int.self, &offset, levels), as: type)
        } else if isSame(type, String?.self) {
            return reinterpret(try wrapped(String.self, &offset, levels), as: type)
        } else if isSame(type, Double?.self) {
            return reinterpret(try wrapped(Double.self, &offset, levels), as: type)
        } else if isSame(type, Bool?.self) {
            return reinterpret(try wrapped(Bool.self, &offset, levels), as: type)
        } else if isSame(type, Date?.self) {
            return reinterpret(try wrapped(Date.self, &offset, levels), as: type)
        } else if isSame(type, Data?.self) {
            return reinterpret(try wrapped(Data.self, &offset, levels), as: type)
        } else if isSame(type, URL?.self) {
            return reinterpret(try wrapped(URL.self, &offset, levels), as: type)
        } else if isSame(type, Float?.self) {
            return reinterpret(try wrapped(Float.self, &offset, levels), as: type)
        }
        throw .unknownType
    }

    @inline(__always)
    private func wrapped<Wrapped>(_ type: Wrapped.Type, _ offset: inout Int, _ levels: Int) throws(WireFailure)
        -> Wrapped?
    {
        if try isNull(offset) {
            offset += 1
            return nil
        }
        return try known(type, &offset, levels)
    }
}

extension ByteReader {
    /// Reads a date from seconds since 1970 (tag 1) or since 2001 (the private tag).
    ///
    /// An untagged number is not a date: its epoch is unknown.
    func date(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Date {
        let start = offset
        var content = levels
        switch try knownTag(&offset, &content) {
        case Tag.referenceDate: return Date(timeIntervalSinceReferenceDate: try double(&offset, content))
        case Tag.epochDate: return Date(timeIntervalSince1970: try double(&offset, content))
        case let tag?: throw .mismatch(found: Tag.name(of: tag) ?? "a tagged value")
        case nil: throw mismatch(start)
        }
    }

    func data(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Data {
        try skipTags(&offset, levels)
        guard self[offset] & MajorType.mask == MajorType.bytes, let content = try definiteContent(&offset) else {
            return Data(try byteString(&offset, levels))
        }
        return bytes.span.data(content)
    }

    func url(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> URL {
        let start = offset
        guard let url = URL(string: try string(&offset, levels)) else { throw .invalidContent(offset: start) }
        return url
    }

    func uuid(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> UUID {
        let start = offset
        let bytes = try byteString(&offset, levels, of: Tag.uuid)
        guard bytes.count == MemoryLayout<uuid_t>.size else { throw .invalidContent(offset: start) }
        return UUID(bytes)
    }

    /// Reads a decimal, an integer of up to 128 bits, or the shortest text of a floating-point number.
    func decimal(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Decimal {
        let start = offset
        guard let value = try number(&offset, levels).decimal else { throw .outOfRange(offset: start) }
        return value
    }
}

extension UUID {
    /// - Precondition: There are 16 bytes.
    init(_ bytes: [UInt8]) {
        self.init(
            uuid: (
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9],
                bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]
            ))
    }
}
