import Foundation

extension ByteReader {
    /// Reads a date from seconds since 1970 (tag 1) or since 2001 (the private tag).
    ///
    /// An untagged number is not a date: its epoch is unknown.
    func date(_ offset: inout Int) throws(WireFailure) -> Date {
        let start = offset
        var content = self
        while let tag = try content.tag(&offset) {
            switch tag {
            case Tag.referenceDate: return Date(timeIntervalSinceReferenceDate: try content.double(&offset))
            case Tag.epochDate: return Date(timeIntervalSince1970: try content.double(&offset))
            default: continue
            }
        }
        throw mismatch(start)
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
        let bytes = try byteString(&offset)
        guard bytes.count == MemoryLayout<uuid_t>.size else { throw .invalidContent(offset: start) }
        return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
    }

    /// Reads a decimal from exponent and mantissa (tag 4), an integer, or a floating-point number.
    func decimal(_ offset: inout Int) throws(WireFailure) -> Decimal {
        let start = offset
        var content = self
        while let tag = try content.tag(&offset) {
            switch tag {
            case Tag.decimalFraction: return try content.decimalFraction(&offset, start)
            case Tag.bignum, Tag.negativeBignum:
                offset = start
                return try mantissa(&offset)
            case Tag.epochDate, Tag.referenceDate: throw .mismatch(found: "a date")
            default: continue
            }
        }
        if self[offset] & MajorType.mask <= MajorType.negative { return try mantissa(&offset) }
        let value = try double(&offset)
        guard value.isFinite else {
            if value.isNaN { return .nan }
            throw .outOfRange(offset: start)
        }
        guard let decimal = Decimal(string: value.description, locale: nil) else { throw .outOfRange(offset: start) }
        return decimal
    }

    private func decimalFraction(_ offset: inout Int, _ start: Int) throws(WireFailure) -> Decimal {
        guard try peek(offset) == MajorType.array | 2 else { throw .invalidContent(offset: start) }
        offset += 1
        let elements = try inside()
        try elements.requireNoDecimalFraction(offset)
        let exponent = try elements.integer(&offset, as: Int8.self)
        try elements.requireNoDecimalFraction(offset)
        let mantissa = try elements.mantissa(&offset)
        let value = Decimal(sign: mantissa.sign, exponent: Int(exponent), significand: mantissa.magnitude)
        // Outside its range of exponents, `Decimal` becomes NaN or loses digits.
        guard value.isFinite, mantissa.isZero || value.exponent == Int(exponent) else {
            throw .outOfRange(offset: start)
        }
        return value
    }

    /// Checks that an exponent or mantissa is not itself a decimal fraction, which other integers may be.
    private func requireNoDecimalFraction(_ offset: Int) throws(WireFailure) {
        var end = offset
        _ = try skipTagsOfNumber(&end)
        guard self[end] & MajorType.mask != MajorType.tag else { throw .invalidContent(offset: offset) }
    }

    private func mantissa(_ offset: inout Int) throws(WireFailure) -> Decimal {
        let start = offset
        let wide: (isNegative: Bool, argument: UInt128)
        if let bignum = try bignum(&offset) {
            wide = bignum
        } else {
            let value = try integer(&offset, as: Int128.self)
            wide = (value < 0, value < 0 ? UInt128(truncatingIfNeeded: ~value) : value.magnitude)
        }
        // A negative number -1 - n is stored as n.
        let (magnitude, overflow) = wide.argument.addingReportingOverflow(wide.isNegative ? 1 : 0)
        guard !overflow, let decimal = Decimal(string: magnitude.description, locale: nil) else {
            throw .outOfRange(offset: start)
        }
        return wide.isNegative ? -decimal : decimal
    }
}
