import Foundation

extension ByteSink {
    /// Appends a date without losing a bit.
    ///
    /// Writes tag 1 (seconds since 1970, as an integer if whole) if that is exact, so that other tools recognise the
    /// date, and otherwise the private tag with the double that `Date` stores.
    func append(_ value: Date, depth: Int) throws(WireFailure) {
        try requireDepth(1, below: depth)
        let seconds = value.timeIntervalSinceReferenceDate
        let epoch = value.timeIntervalSince1970
        guard Date(timeIntervalSince1970: epoch).timeIntervalSinceReferenceDate.bitPattern == seconds.bitPattern else {
            appendHead(MajorType.tag, Tag.referenceDate)
            append(seconds)
            return
        }
        appendHead(MajorType.tag, Tag.epochDate)
        // Whole doubles up to 2^53 convert to integers exactly.
        if let whole = Int64(exactly: epoch), whole.magnitude <= 1 << 53 {
            appendSigned(whole)
        } else {
            append(epoch)
        }
    }

    func append(_ value: Data) {
        value.withUnsafeBytes { appendByteString($0) }
    }

    /// Appends the absolute form of a URL.
    func append(_ value: URL, depth: Int) throws(WireFailure) {
        try requireDepth(1, below: depth)
        appendHead(MajorType.tag, Tag.uri)
        append(value.absoluteString)
    }

    func append(_ value: UUID, depth: Int) throws(WireFailure) {
        try requireDepth(1, below: depth)
        appendHead(MajorType.tag, Tag.uuid)
        withUnsafeBytes(of: value.uuid) { appendByteString($0) }
    }

    /// Appends a decimal as exponent and mantissa; NaN as a floating-point number.
    func append(_ value: Decimal, depth: Int) throws(WireFailure) {
        guard value.isFinite, let magnitude = UInt128(value.significand.magnitude.description) else {
            append(Double.nan)
            return
        }
        try requireDepth(2, below: depth)
        appendHead(MajorType.tag, Tag.decimalFraction)
        appendHead(MajorType.array, 2)
        appendSigned(Int64(value.exponent))
        try append(magnitude: magnitude, isNegative: value.sign == .minus && magnitude != 0, depth: depth + 2)
    }
}
