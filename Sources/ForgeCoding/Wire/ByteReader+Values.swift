import Foundation

extension ByteReader {
    /// Whether the item at an offset is null; `undefined` counts as null.
    @inline(__always)
    func isNull(_ offset: Int) throws(WireFailure) -> Bool {
        let first = try peek(offset)
        return first == Simple.null || first == Simple.undefined
    }

    func bool(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Bool {
        try skipTags(&offset, levels)
        switch self[offset] {
        case Simple.true:
            offset += 1
            return true
        case Simple.false:
            offset += 1
            return false
        default: throw mismatch(offset)
        }
    }

    /// Reads an integer of any width, or a floating-point number that is whole.
    @inline(__always)
    func integer<Value: FixedWidthInteger>(
        _ offset: inout Int, _ levels: Int, as type: Value.Type
    ) throws(WireFailure) -> Value {
        let start = offset
        let first = try peek(offset)
        if first & MajorType.mask == MajorType.unsigned {
            guard let value = Value(exactly: try head(&offset)) else { throw .outOfRange(offset: start) }
            return value
        }
        if first & MajorType.mask == MajorType.negative {
            let argument = try head(&offset)
            if let short = Int64(exactly: argument) {
                guard let value = Value(exactly: ~short) else { throw .outOfRange(offset: start) }
                return value
            }
            guard let value = Value(exactly: ~Int128(argument)) else { throw .outOfRange(offset: start) }
            return value
        }
        return try integerSlowPath(&offset, levels, as: type)
    }

    @inline(never)
    private func integerSlowPath<Value: FixedWidthInteger>(
        _ offset: inout Int, _ levels: Int, as type: Value.Type
    ) throws(WireFailure) -> Value {
        let start = offset
        guard let value = try number(&offset, levels).integer(type) else { throw .outOfRange(offset: start) }
        return value
    }

    /// Reads a double, or converts another number: a float or a decimal to the nearest double, an integer to the double
    /// that equals it or that has it as its shortest text.
    @inline(__always)
    func double(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Double {
        if try peek(offset) == Simple.double {
            return Double(bitPattern: try argument(&offset, as: UInt64.self))
        }
        return try doubleSlowPath(&offset, levels)
    }

    @inline(never)
    private func doubleSlowPath(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Double {
        let start = offset
        guard let value = try number(&offset, levels).double else { throw .outOfRange(offset: start) }
        return value
    }

    /// Reads a float, or converts another number: a double or a decimal to the nearest float unless that overflows, an
    /// integer to the float that equals it.
    @inline(__always)
    func float(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Float {
        if try peek(offset) == Simple.float {
            return Float(bitPattern: try argument(&offset, as: UInt32.self))
        }
        return try floatSlowPath(&offset, levels)
    }

    @inline(never)
    private func floatSlowPath(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Float {
        let start = offset
        guard let value = try number(&offset, levels).float else { throw .outOfRange(offset: start) }
        return value
    }

    /// Reads a number of any kind.
    func number(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Number {
        let start = offset
        var contentLevels = levels
        switch try knownTag(&offset, &contentLevels) {
        case nil: break
        case Tag.bignum: return .integer(isNegative: false, try bignum(&offset, start))
        case Tag.negativeBignum: return .integer(isNegative: true, try bignum(&offset, start))
        case Tag.decimalFraction: return .decimal(try decimalFraction(&offset, contentLevels, start))
        case let tag?: throw .mismatch(found: Tag.name(of: tag) ?? "a tagged value")
        }
        let first = self[offset]
        switch first {
        case Simple.double: return .double(Double(bitPattern: try argument(&offset, as: UInt64.self)))
        case Simple.float: return .float(Float(bitPattern: try argument(&offset, as: UInt32.self)))
        case Simple.half: return .float(Self.float(half: try argument(&offset, as: UInt16.self)))
        default: break
        }
        guard first & MajorType.mask <= MajorType.negative else { throw mismatch(offset) }
        return .integer(isNegative: first & MajorType.mask == MajorType.negative, UInt128(try head(&offset)))
    }

    /// Reads the content of a bignum of up to 128 bits.
    private func bignum(_ offset: inout Int, _ start: Int) throws(WireFailure) -> UInt128 {
        guard try peek(offset) & MajorType.mask == MajorType.bytes else { throw .invalidContent(offset: start) }
        let digits = try byteString(&offset, 0).drop { $0 == 0 }
        guard digits.count <= 16 else { throw .outOfRange(offset: start) }
        return digits.reduce(0) { $0 << 8 | UInt128($1) }
    }

    /// Reads the content of a decimal fraction: an array of exponent and mantissa, both integers.
    private func decimalFraction(_ offset: inout Int, _ levels: Int, _ start: Int) throws(WireFailure) -> Decimal {
        guard try peek(offset) == MajorType.array | 2 else { throw .invalidContent(offset: start) }
        offset += 1
        let contentLevels = try inside(levels)
        guard case .integer(let isNegative, let argument) = try number(&offset, contentLevels),
            case let mantissa = try number(&offset, contentLevels), case .integer = mantissa
        else { throw .invalidContent(offset: start) }
        let exponent = Number.integer(isNegative: isNegative, argument).integer(Int8.self)
        guard let exponent, let value = mantissa.decimal(exponent: exponent) else { throw .outOfRange(offset: start) }
        return value
    }

    /// Converts a half-precision number (RFC 8949, appendix D); the conversion is exact.
    static func float(half: UInt16) -> Float {
        let sign = UInt32(half & 0x8000) << 16
        let exponent = UInt32(half >> 10) & 0x1F
        let fraction = UInt32(half) & 0x3FF
        switch exponent {
        case 0:
            let magnitude = Float(fraction) * Float(sign: .plus, exponent: -24, significand: 1)
            return Float(bitPattern: magnitude.bitPattern | sign)
        case 0x1F: return Float(bitPattern: sign | 0x7F80_0000 | fraction << 13)
        default: return Float(bitPattern: sign | (exponent + 112) << 23 | fraction << 13)
        }
    }

    @inline(__always)
    func string(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> String {
        let start = offset
        if try peek(offset) & MajorType.mask == MajorType.text, let content = try definiteContent(&offset) {
            return try text(content, start)
        }
        return try stringSlowPath(&offset, levels)
    }

    private func stringSlowPath(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> String {
        try skipTags(&offset, levels, and: Tag.uri)
        let start = offset
        guard self[offset] & MajorType.mask == MajorType.text else { throw mismatch(offset) }
        if let content = try definiteContent(&offset) { return try text(content, start) }
        var whole = ""
        for chunk in try chunks(&offset) { whole += try text(chunk, start) }
        return whole
    }

    /// Reads a byte string, with or without the tag `tag`.
    func byteString(_ offset: inout Int, _ levels: Int, of tag: UInt64? = nil) throws(WireFailure) -> [UInt8] {
        try skipTags(&offset, levels, and: tag)
        guard self[offset] & MajorType.mask == MajorType.bytes else { throw mismatch(offset) }
        if let content = try definiteContent(&offset) { return array(content) }
        var whole: [UInt8] = []
        for chunk in try chunks(&offset) { whole += array(chunk) }
        return whole
    }

    private func array(_ range: Range<Int>) -> [UInt8] {
        Array(bytes[(bytes.startIndex + range.lowerBound)..<(bytes.startIndex + range.upperBound)])
    }

    /// Reads an array of elements of one type.
    @inline(__always)
    func list<Element>(
        _ offset: inout Int, _ levels: Int, _ element: (inout Int, Int) throws(WireFailure) -> Element
    ) throws(WireFailure) -> [Element] {
        let arrayLevels = try skipTags(&offset, levels)
        guard self[offset] & MajorType.mask == MajorType.array else { throw mismatch(offset) }
        let contentLevels = try inside(arrayLevels)
        var list: [Element] = []
        guard let count = try entryCount(&offset, itemsPerEntry: 1) else {
            while try peek(offset) != Simple.break { list.append(try element(&offset, contentLevels)) }
            offset += 1
            return list
        }
        list.reserveCapacity(count)
        for _ in 0..<count { list.append(try element(&offset, contentLevels)) }
        return list
    }
}

extension ByteReader {
    /// Reads a value of a type that is read without its `init(from:)`.
    ///
    /// - Throws: ``WireFailure/unknownType`` for any other type, with nothing read. An optional result would cost a
    ///   lookup of the metadata of `Optional<Value>` in every call.
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

    /// Reads an optional of a common type, so that a top-level optional needs no container.
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
        var contentLevels = levels
        switch try knownTag(&offset, &contentLevels) {
        case Tag.referenceDate: return Date(timeIntervalSinceReferenceDate: try double(&offset, contentLevels))
        case Tag.epochDate: return Date(timeIntervalSince1970: try double(&offset, contentLevels))
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

    /// Reads a decimal, or converts another number: an integer exactly, a floating-point number by its shortest text.
    ///
    /// - Throws: ``WireFailure/outOfRange(offset:)`` if no `Decimal` has the value.
    func decimal(_ offset: inout Int, _ levels: Int) throws(WireFailure) -> Decimal {
        let start = offset
        guard let value = try number(&offset, levels).decimal else { throw .outOfRange(offset: start) }
        return value
    }
}

extension UUID {
    /// Creates a UUID from its 16 bytes.
    ///
    /// - Precondition: `bytes` has 16 elements.
    init(_ bytes: [UInt8]) {
        self.init(
            uuid: (
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9],
                bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]
            ))
    }
}
