/// The exact value of a JSON number, or of the description of a finite `Double`.
struct DecimalNumeral: Equatable {
    private let isNegative: Bool

    /// The significant digits in ASCII, without zeros at either end.
    private let digits: [UInt8]

    /// The power of ten of the last digit; limited to a range that no `Double` or `Decimal` exceeds.
    private let exponent: Int

    init(_ text: String) {
        let parts = text.utf8.split { $0 == UInt8(ascii: "e") || $0 == UInt8(ascii: "E") }
        isNegative = parts[0].first == UInt8(ascii: "-")
        let halves = parts[0].drop { $0 == UInt8(ascii: "-") }.split(separator: UInt8(ascii: "."))
        let all = halves.joined()
        let significant = all.drop { $0 == UInt8(ascii: "0") }
        let zeros = significant.reversed().prefix { $0 == UInt8(ascii: "0") }.count
        digits = Array(significant).dropLast(zeros)
        guard !digits.isEmpty else {
            exponent = 0
            return
        }
        let limit = 1 << 40
        let power = parts.dropFirst().first.map { part in
            Int(Substring(part)) ?? (part.first == UInt8(ascii: "-") ? -limit : limit)
        }
        let places = halves.dropFirst().first?.count ?? 0
        exponent = max(-limit, min(limit, power ?? 0)) - places + zeros
    }

    /// The number as the coder writes a `Decimal`; nil for zero, and if no `Decimal` is equal.
    var decimalFraction: CodedValue? {
        guard var mantissa = UInt128(String(decoding: digits, as: UTF8.self)) else { return nil }
        var exponent = exponent
        while exponent > Int8.max {
            let (product, overflow) = mantissa.multipliedReportingOverflow(by: 10)
            guard !overflow else { return nil }
            mantissa = product
            exponent -= 1
        }
        guard exponent >= Int8.min else { return nil }
        let integer = CodedValue(magnitude: mantissa, isNegative: isNegative)
        return .tagged(Tag.decimalFraction, .array([.integer(Int64(exponent)), integer]))
    }
}

extension CodedValue {
    /// An integer.
    ///
    /// - Precondition: Zero is not negative.
    init(magnitude: UInt128, isNegative: Bool) {
        // A negative number -1 - n is stored as n.
        let argument = isNegative ? magnitude - 1 : magnitude
        if let short = Int64(exactly: argument) {
            self = .integer(isNegative ? ~short : short)
        } else if !isNegative, let unsigned = UInt64(exactly: argument) {
            self = .unsigned(unsigned)
        } else {
            self = .tagged(isNegative ? Tag.negativeBignum : Tag.bignum, .bytes(argument.bigEndianBytes))
        }
    }
}

extension UInt128 {
    /// The big-endian bytes without leading zeros, of a number of more than 63 bits.
    fileprivate var bigEndianBytes: [UInt8] {
        UInt64(truncatingIfNeeded: self >> 64).bigEndianBytes
            + (0..<8).reversed().map { UInt8(truncatingIfNeeded: self >> UInt128(8 * $0)) }
    }
}
