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
        if let wide = try bignum(&offset) {
            // A negative bignum n means -1 - n, which is ~n in two's complement.
            let value =
                wide.isNegative
                ? Int128(exactly: wide.argument).flatMap { Value(exactly: ~$0) } : Value(exactly: wide.argument)
            guard let value else { throw .outOfRange(offset: start) }
            return value
        }
        let content = try skipTagsOfNumber(&offset)
        switch self[offset] & MajorType.mask {
        case MajorType.unsigned, MajorType.negative:
            return try integer(&offset, as: type)
        case MajorType.tag:
            // The text of a decimal has a point if it is not whole.
            guard let value = Value(try content.decimal(&offset).description) else { throw .outOfRange(offset: start) }
            return value
        default:
            guard let value = Value(exactly: try double(&offset)) else { throw .outOfRange(offset: start) }
            return value
        }
    }

    /// Reads a bignum of up to 128 bits; nil, with nothing read, for another item.
    func bignum(_ offset: inout Int) throws(WireFailure) -> (isNegative: Bool, argument: UInt128)? {
        let first = try peek(offset)
        guard first == MajorType.tag | UInt8(Tag.bignum) || first == MajorType.tag | UInt8(Tag.negativeBignum) else {
            return nil
        }
        let start = offset
        offset += 1
        _ = try inside()
        guard try peek(offset) & MajorType.mask == MajorType.bytes else { throw .invalidContent(offset: start) }
        var argument: UInt128 = 0
        var isTooLong = false
        try forEachChunk(&offset) { chunk throws(WireFailure) in
            for byte in chunk {
                if argument >> 120 != 0 { isTooLong = true }
                argument = argument << 8 | UInt128(byte)
            }
        }
        if isTooLong { throw .outOfRange(offset: start) }
        return (first == MajorType.tag | UInt8(Tag.negativeBignum), argument)
    }

    /// Reads a double, or an integer that a double represents exactly.
    @inline(__always)
    func double(_ offset: inout Int) throws(WireFailure) -> Double {
        if try peek(offset) == Simple.double {
            return Double(bitPattern: try argument(&offset, as: UInt64.self))
        }
        return try doubleSlowPath(&offset)
    }

    @inline(never)
    private func doubleSlowPath(_ offset: inout Int) throws(WireFailure) -> Double {
        let content = try skipTagsOfNumber(&offset)
        let start = offset
        switch self[offset] {
        case Simple.double: return Double(bitPattern: try argument(&offset, as: UInt64.self))
        case Simple.float: return Double(Float(bitPattern: try argument(&offset, as: UInt32.self)))
        case Simple.half: return Double(Self.float(half: try argument(&offset, as: UInt16.self)))
        case let first where first & MajorType.mask <= MajorType.negative:
            guard let value = Double(exactly: try integer(&offset, as: Int128.self)) else {
                throw .outOfRange(offset: start)
            }
            return value
        case let first where first & MajorType.mask == MajorType.tag:
            // The nearest one: few decimals are doubles exactly.
            guard let value = Double(try content.decimal(&offset).description) else {
                throw .outOfRange(offset: start)
            }
            return value
        default: throw mismatch(offset)
        }
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
        let content = try skipTagsOfNumber(&offset)
        let start = offset
        let isInteger = self[offset] & MajorType.mask <= MajorType.negative
        let wide = try content.double(&offset)
        let value = Float(wide)
        guard value.isFinite || !wide.isFinite, !isInteger || Double(value) == wide else {
            throw .outOfRange(offset: start)
        }
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
        try skipTags(&offset)
        let start = offset
        guard self[offset] & MajorType.mask == MajorType.text else { throw mismatch(offset) }
        var whole = ""
        try forEachChunk(&offset) { chunk throws(WireFailure) in
            whole += try text(chunk, start)
        }
        return whole
    }

    /// Reads a byte string.
    func byteString(_ offset: inout Int) throws(WireFailure) -> [UInt8] {
        try skipTags(&offset)
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
