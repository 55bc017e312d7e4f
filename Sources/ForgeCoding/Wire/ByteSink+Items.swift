extension ByteSink {
    /// Appends an item's head: major type, and argument in the shortest form.
    @inline(__always)
    func appendHead(_ major: UInt8, _ argument: UInt64) {
        if argument < 24 {
            append(major | UInt8(truncatingIfNeeded: argument))
        } else {
            appendLongHead(major, argument)
        }
    }

    @inline(never)
    private func appendLongHead(_ major: UInt8, _ argument: UInt64) {
        if argument <= UInt64(UInt8.max) {
            append(major | 24, UInt8(truncatingIfNeeded: argument))
        } else if argument <= UInt64(UInt16.max) {
            append(major | 25, UInt16(truncatingIfNeeded: argument))
        } else if argument <= UInt64(UInt32.max) {
            append(major | 26, UInt32(truncatingIfNeeded: argument))
        } else {
            append(major | 27, argument)
        }
    }

    /// Replaces the one-byte head at `offset` by one with this count.
    func setHead(_ major: UInt8, count: Int, at offset: Int) {
        if count < 24 {
            self[offset] = major | UInt8(truncatingIfNeeded: count)
            return
        }
        let argument = UInt64(count)
        let size = argument <= 0xFF ? 1 : argument <= 0xFFFF ? 2 : argument <= 0xFFFF_FFFF ? 4 : 8
        openGap(at: offset + 1, length: size)
        self[offset] = major | UInt8(24 + size.trailingZeroBitCount)
        for index in 0..<size {
            self[offset + size - index] = UInt8(truncatingIfNeeded: argument >> UInt64(8 * index))
        }
    }

    func appendNull() { append(Simple.null) }

    @inline(__always)
    func append(_ value: Bool) { append(value ? Simple.true : Simple.false) }

    @inline(__always)
    func appendSigned(_ value: Int64) {
        if value >= 0 {
            appendHead(MajorType.unsigned, UInt64(bitPattern: value))
        } else {
            appendHead(MajorType.negative, UInt64(bitPattern: ~value))
        }
    }

    @inline(__always)
    func appendUnsigned(_ value: UInt64) { appendHead(MajorType.unsigned, value) }

    @inline(__always)
    func append(_ value: Double) { append(Simple.double, value.bitPattern) }

    @inline(__always)
    func append(_ value: Float) { append(Simple.float, value.bitPattern) }

    func appendByteString(_ bytes: Span<UInt8>) {
        appendHead(MajorType.bytes, UInt64(bytes.count))
        append(bytes)
    }

    /// Throws if `levels` more levels at this depth exceed the limit.
    @inline(__always)
    func requireDepth(_ levels: Int, below depth: Int) throws(WireFailure) {
        guard depth &+ levels <= maximumDepth else { throw .tooDeep }
    }

    /// Appends an integer, or a bignum if it does not fit into major type 0 or 1 (RFC 8949, section 3.4.3).
    func append(magnitude: UInt128, isNegative: Bool, depth: Int) throws(WireFailure) {
        // A negative number -1 - n is stored as n.
        let argument = isNegative ? magnitude - 1 : magnitude
        if let short = UInt64(exactly: argument) {
            appendHead(isNegative ? MajorType.negative : MajorType.unsigned, short)
            return
        }
        try requireDepth(1, below: depth)
        appendHead(MajorType.tag, isNegative ? Tag.negativeBignum : Tag.bignum)
        let digits = argument.bigEndianBytes
        appendByteString(digits.span)
    }

    func append(_ value: Int128, depth: Int) throws(WireFailure) {
        try append(magnitude: value.magnitude, isNegative: value < 0, depth: depth)
    }

    func append(_ value: UInt128, depth: Int) throws(WireFailure) {
        try append(magnitude: value, isNegative: false, depth: depth)
    }
}
