import Foundation

/// A number in the form in which it is stored, and its conversion to each type of numbers.
///
/// A conversion is nil if the value does not fit into the type.
enum Number {
    /// An integer; a negative one -1 - n is stored as n.
    case integer(isNegative: Bool, UInt128)
    case decimal(Decimal)
    case double(Double)
    case float(Float)

    func integer<Value: FixedWidthInteger>(_ type: Value.Type) -> Value? {
        switch self {
        case .integer(false, let value): Value(exactly: value)
        case .integer(true, let argument): Int128(exactly: argument).flatMap { Value(exactly: ~$0) }
        // The text of a decimal has a point if it is not whole.
        case .decimal(let value): Value(value.description)
        case .double(let value): Value(exactly: value)
        case .float(let value): Value(exactly: value)
        }
    }

    /// The double of the same value; of a decimal the nearest, and of an integer also the one whose shortest text is that
    /// integer.
    var double: Double? {
        switch self {
        case .integer(let isNegative, let argument): Self.double(isNegative, argument)
        // Few decimals are doubles exactly.
        case .decimal(let value): Double(value.description)
        case .double(let value): value
        case .float(let value): Double(value)
        }
    }

    /// JavaScript writes a double below 10^21 as an integer: its shortest digits, followed by zeros.
    private static func double(_ isNegative: Bool, _ argument: UInt128) -> Double? {
        let (magnitude, overflow) = argument.addingReportingOverflow(isNegative ? 1 : 0)
        if overflow { return -0x1p128 }
        if let exact = Double(exactly: magnitude) { return isNegative ? -exact : exact }
        let text = magnitude.description
        guard let nearest = Double(text), DecimalNumeral(text) == DecimalNumeral(nearest.description) else {
            return nil
        }
        return isNegative ? -nearest : nearest
    }

    /// The nearest float, unless that is infinite; of an integer only the float of the same value.
    var float: Float? {
        switch self {
        case .integer(false, let value): return Float(exactly: value)
        case .integer(true, let argument):
            let (magnitude, overflow) = argument.addingReportingOverflow(1)
            return overflow ? nil : Float(exactly: magnitude).map { -$0 }
        case .decimal(let value): return Float(value.description).flatMap { $0.isFinite ? $0 : nil }
        case .double(let value): return Float(value).isFinite || !value.isFinite ? Float(value) : nil
        case .float(let value): return value
        }
    }

    /// The decimal of the same value; of a floating-point number that of the shortest text of the equal double.
    var decimal: Decimal? {
        switch self {
        case .integer: decimal(exponent: 0)
        case .decimal(let value): value
        case .double(let value): Self.decimal(value)
        case .float(let value): Self.decimal(Double(value))
        }
    }

    private static func decimal(_ value: Double) -> Decimal? {
        if value.isNaN { return .nan }
        return value.isFinite ? Decimal(string: value.description, locale: nil) : nil
    }

    /// An integer, times a power of ten; nil for more than 128 bits.
    func decimal(exponent: Int8) -> Decimal? {
        guard case .integer(let isNegative, let argument) = self else { return nil }
        let (magnitude, overflow) = argument.addingReportingOverflow(isNegative ? 1 : 0)
        // `Decimal(sign:exponent:significand:)` loses a significand that ends in zeros, at the highest exponents.
        return overflow ? nil : Decimal(string: "\(isNegative ? "-" : "")\(magnitude)e\(exponent)", locale: nil)
    }

    /// The digits of an integer or a decimal, as a JSON text that is read back as the same kind of number; nil for a
    /// floating-point number.
    var json: String? {
        switch self {
        case .integer(false, let value): return value.description
        case .integer(true, let argument):
            let (magnitude, overflow) = argument.addingReportingOverflow(1)
            return overflow ? "-340282366920938463463374607431768211456" : "-\(magnitude)"
        case .decimal(let value):
            let text = value.description
            // Without a point it would be an integer, and if a double has the value, it is written for people.
            guard !text.utf8.contains(UInt8(ascii: ".")), let double = Double(text),
                DecimalNumeral(text) != DecimalNumeral(double.description)
            else { return text }
            return text + ".0"
        case .double, .float: return nil
        }
    }
}
