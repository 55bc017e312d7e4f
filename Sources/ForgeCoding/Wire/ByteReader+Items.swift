import Foundation

extension ByteReader {
    /// Whether the item is null; `undefined` counts as null.
    @inline(__always)
    func isNull(_ offset: Int) throws(WireFailure) -> Bool {
        let first = try peek(offset)
        return first == Simple.null || first == Simple.undefined
    }

    func bool(_ offset: inout Int) throws(WireFailure) -> Bool {
        try skipTags(&offset)
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
    func integer<Value: FixedWidthInteger>(_ offset: inout Int, as type: Value.Type) throws(WireFailure) -> Value {
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
        return try integerSlowPath(&offset, as: type)
    }

    @inline(never)
    private func integerSlowPath<Value: FixedWidthInteger>(
        _ offset: inout Int, as type: Value.Type
    ) throws(WireFailure) -> Value {
        let start = offset
        guard let value = try number(&offset).integer(type) else { throw .outOfRange(offset: start) }
        return value
    }

    /// Reads a double, an integer that a double represents exactly, or any number whose nearest double has its text.
    @inline(__always)
    func double(_ offset: inout Int) throws(WireFailure) -> Double {
        if try peek(offset) == Simple.double {
            return Double(bitPattern: try argument(&offset, as: UInt64.self))
        }
        return try doubleSlowPath(&offset)
    }

    @inline(never)
    private func doubleSlowPath(_ offset: inout Int) throws(WireFailure) -> Double {
        let start = offset
        guard let value = try number(&offset).double else { throw .outOfRange(offset: start) }
        return value
    }

    /// Reads a float, rounds a double unless that overflows, or takes an integer that a float represents exactly.
    @inline(__always)
    func float(_ offset: inout Int) throws(WireFailure) -> Float {
        if try peek(offset) == Simple.float {
            return Float(bitPattern: try argument(&offset, as: UInt32.self))
        }
        return try floatSlowPath(&offset)
    }

    @inline(never)
    private func floatSlowPath(_ offset: inout Int) throws(WireFailure) -> Float {
        let start = offset
        guard let value = try number(&offset).float else { throw .outOfRange(offset: start) }
        return value
    }

    /// Reads a number of any kind.
    func number(_ offset: inout Int) throws(WireFailure) -> Number {
        let start = offset
        var content = self
        switch try content.knownTag(&offset) {
        case nil: break
        case Tag.bignum: return .integer(isNegative: false, try bignum(&offset, start))
        case Tag.negativeBignum: return .integer(isNegative: true, try bignum(&offset, start))
        case Tag.decimalFraction: return .decimal(try content.decimalFraction(&offset, start))
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
        let digits = try byteString(&offset).drop { $0 == 0 }
        guard digits.count <= 16 else { throw .outOfRange(offset: start) }
        return digits.reduce(0) { $0 << 8 | UInt128($1) }
    }

    /// Reads the content of a decimal fraction: an array of exponent and mantissa, both integers.
    private func decimalFraction(_ offset: inout Int, _ start: Int) throws(WireFailure) -> Decimal {
        guard try peek(offset) == MajorType.array | 2 else { throw .invalidContent(offset: start) }
        offset += 1
        let elements = try inside()
        guard case .integer(let isNegative, let argument) = try elements.number(&offset),
            case let mantissa = try elements.number(&offset), case .integer = mantissa
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
    func string(_ offset: inout Int) throws(WireFailure) -> String {
        let start = offset
        let first = try peek(offset)
        guard first & MajorType.mask == MajorType.text, first & ~MajorType.mask != MajorType.indefinite else {
            return try stringSlowPath(&offset)
        }
        let length = try head(&offset)
        return try text(content(length, &offset), start)
    }

    /// The string in a range of the reader.
    @inline(__always)
    func text(_ range: Range<Int>, _ start: Int) throws(WireFailure) -> String {
        try text(bytes(range), start)
    }

    /// Converts bytes to a string after validating UTF-8. `String(validating:as:)` looks up type metadata in every
    /// call.
    @inline(__always)
    private func text(_ bytes: UnsafeBufferPointer<UInt8>, _ start: Int) throws(WireFailure) -> String {
        guard UTF8Check.isValid(bytes) else { throw .invalidText(offset: start) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func stringSlowPath(_ offset: inout Int) throws(WireFailure) -> String {
        try skipTags(&offset, and: Tag.uri)
        let start = offset
        guard self[offset] & MajorType.mask == MajorType.text else { throw mismatch(offset) }
        var whole = ""
        try forEachChunk(&offset) { chunk throws(WireFailure) in
            whole += try text(chunk, start)
        }
        return whole
    }

    /// Reads a byte string, the content of `tag` if it has that.
    func byteString(_ offset: inout Int, of tag: UInt64? = nil) throws(WireFailure) -> [UInt8] {
        try skipTags(&offset, and: tag)
        guard self[offset] & MajorType.mask == MajorType.bytes else { throw mismatch(offset) }
        var whole: [UInt8] = []
        try forEachChunk(&offset) { chunk throws(WireFailure) in whole += chunk }
        return whole
    }

    /// Reads an array of elements of one type.
    @inline(__always)
    func list<Element>(
        _ offset: inout Int, _ element: (ByteReader, inout Int) throws(WireFailure) -> Element
    ) throws(WireFailure) -> [Element] {
        let content = try skipTags(&offset)
        guard self[offset] & MajorType.mask == MajorType.array else { throw mismatch(offset) }
        let elements = try content.inside()
        var list: [Element] = []
        guard let count = try entryCount(&offset, itemsPerEntry: 1) else {
            while try peek(offset) != Simple.break { list.append(try element(elements, &offset)) }
            offset += 1
            return list
        }
        list.reserveCapacity(count)
        for _ in 0..<count { list.append(try element(elements, &offset)) }
        return list
    }
}
