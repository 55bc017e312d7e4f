/// The tags that the binary format writes.
enum Tag {
    /// Seconds since 1970-01-01T00:00:00Z (RFC 8949, section 3.4.2).
    static let epochDate: UInt64 = 1
    static let bignum: UInt64 = 2
    static let negativeBignum: UInt64 = 3
    /// An array of exponent and mantissa, base ten (RFC 8949, section 3.4.4).
    static let decimalFraction: UInt64 = 4
    static let uri: UInt64 = 32
    static let uuid: UInt64 = 37

    /// Seconds since 2001-01-01T00:00:00Z as a double. A private tag, numbered after the distance between the two
    /// epochs.
    static let referenceDate: UInt64 = 978_307_200
}
