import Foundation

extension ByteSink {
    /// Replaces the one-byte head at `offset` by a head with this count, and moves the bytes after it if necessary.
    ///
    /// - Complexity: O(n) in the number of bytes after the head.
    func setHead(_ major: UInt8, count: Int, at offset: Int) {
        if count < 24 {
            write(major | UInt8(truncatingIfNeeded: count), at: offset)
            return
        }
        let argument = UInt64(count)
        let size = argument <= 0xFF ? 1 : argument <= 0xFFFF ? 2 : argument <= 0xFFFF_FFFF ? 4 : 8
        openGap(at: offset + 1, length: size)
        write(major | UInt8(24 + size.trailingZeroBitCount), at: offset)
        for index in 0..<size {
            write(UInt8(truncatingIfNeeded: argument >> UInt64(8 * index)), at: offset + size - index)
        }
    }

    func appendNull() { append(Simple.null) }

    @inline(__always)
    func append(_ value: Bool) { append(value ? Simple.true : Simple.false) }

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

extension ByteSink {
    /// Appends a value of a type with an encoding of its own.
    ///
    /// - Returns: false, with nothing appended, for any other type.
    @inline(__always)
    func appendKnown<Value>(_ value: Value, depth: Int) throws(WireFailure) -> Bool {
        let type = Value.self
        if isSame(type, Int.self) {
            appendSigned(Int64(reinterpret(value, as: Int.self)))
        } else if isSame(type, String.self) {
            append(reinterpret(value, as: String.self))
        } else if isSame(type, Double.self) {
            append(reinterpret(value, as: Double.self))
        } else if isSame(type, Bool.self) {
            append(reinterpret(value, as: Bool.self))
        } else if isSame(type, Date.self) {
            try append(reinterpret(value, as: Date.self), depth: depth)
        } else if isSame(type, Data.self) {
            append(reinterpret(value, as: Data.self))
        } else if isSame(type, UUID.self) {
            try append(reinterpret(value, as: UUID.self), depth: depth)
        } else if isSame(type, URL.self) {
            try append(reinterpret(value, as: URL.self), depth: depth)
        } else if isSame(type, Decimal.self) {
            try append(reinterpret(value, as: Decimal.self), depth: depth)
        } else if isSame(type, [UInt8].self) {
            let bytes = reinterpret(value, as: [UInt8].self)
            appendByteString(bytes.span)
        } else {
            if try appendNumber(value, depth: depth) { return true }
            return try appendList(value, depth: depth)
        }
        return true
    }

    private func appendNumber<Value>(_ value: Value, depth: Int) throws(WireFailure) -> Bool {
        let type = Value.self
        if isSame(type, Float.self) {
            append(reinterpret(value, as: Float.self))
        } else if isSame(type, Int64.self) {
            appendSigned(reinterpret(value, as: Int64.self))
        } else if isSame(type, UInt64.self) {
            appendUnsigned(reinterpret(value, as: UInt64.self))
        } else if isSame(type, UInt.self) {
            appendUnsigned(UInt64(reinterpret(value, as: UInt.self)))
        } else if isSame(type, Int32.self) {
            appendSigned(Int64(reinterpret(value, as: Int32.self)))
        } else if isSame(type, UInt32.self) {
            appendUnsigned(UInt64(reinterpret(value, as: UInt32.self)))
        } else if isSame(type, Int16.self) {
            appendSigned(Int64(reinterpret(value, as: Int16.self)))
        } else if isSame(type, UInt16.self) {
            appendUnsigned(UInt64(reinterpret(value, as: UInt16.self)))
        } else if isSame(type, Int8.self) {
            appendSigned(Int64(reinterpret(value, as: Int8.self)))
        } else if isSame(type, UInt8.self) {
            appendUnsigned(UInt64(reinterpret(value, as: UInt8.self)))
        } else if isSame(type, Int128.self) {
            try append(reinterpret(value, as: Int128.self), depth: depth)
        } else if isSame(type, UInt128.self) {
            try append(reinterpret(value, as: UInt128.self), depth: depth)
        } else {
            return false
        }
        return true
    }

    private func appendList<Value>(_ value: Value, depth: Int) throws(WireFailure) -> Bool {
        if isSame(Value.self, [Int].self) {
            try appendList(reinterpret(value, as: [Int].self), depth) { appendSigned(Int64($0)) }
        } else if isSame(Value.self, [Double].self) {
            try appendList(reinterpret(value, as: [Double].self), depth) { append($0) }
        } else if isSame(Value.self, [Float].self) {
            try appendList(reinterpret(value, as: [Float].self), depth) { append($0) }
        } else if isSame(Value.self, [String].self) {
            try appendList(reinterpret(value, as: [String].self), depth) { append($0) }
        } else {
            return false
        }
        return true
    }

    @inline(__always)
    private func appendList<Element>(
        _ list: [Element], _ depth: Int, _ body: (Element) -> Void
    ) throws(WireFailure) {
        try requireDepth(1, below: depth)
        appendHead(MajorType.array, UInt64(list.count))
        for element in list { body(element) }
    }

    /// Appends an optional of a common type, so that a top-level optional needs no container.
    ///
    /// - Returns: false, with nothing appended, for any other type.
    func appendKnownOptional<Value>(_ value: Value, depth: Int) throws(WireFailure) -> Bool {
        if isSame(Value.self, Int?.self) {
            try appendWrapped(reinterpret(value, as: Int?.self), depth)
        } else if isSame(Value.self, String?.self) {
            try appendWrapped(reinterpret(value, as: String?.self), depth)
        } else if isSame(Value.self, Double?.self) {
            try appendWrapped(reinterpret(value, as: Double?.self), depth)
        } else if isSame(Value.self, Bool?.self) {
            try appendWrapped(reinterpret(value, as: Bool?.self), depth)
        } else if isSame(Value.self, Date?.self) {
            try appendWrapped(reinterpret(value, as: Date?.self), depth)
        } else if isSame(Value.self, Data?.self) {
            try appendWrapped(reinterpret(value, as: Data?.self), depth)
        } else if isSame(Value.self, URL?.self) {
            try appendWrapped(reinterpret(value, as: URL?.self), depth)
        } else if isSame(Value.self, Float?.self) {
            try appendWrapped(reinterpret(value, as: Float?.self), depth)
        } else {
            return false
        }
        return true
    }

    @inline(__always)
    private func appendWrapped<Wrapped>(_ value: Wrapped?, _ depth: Int) throws(WireFailure) {
        guard let value else {
            appendNull()
            return
        }
        _ = try appendKnown(value, depth: depth)
    }
}

extension ByteSink {
    /// Appends a date without loss of precision.
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

    /// Appends the absolute form of a URL.
    func append(_ value: URL, depth: Int) throws(WireFailure) {
        try requireDepth(1, below: depth)
        appendHead(MajorType.tag, Tag.uri)
        append(value.absoluteString)
    }

    func append(_ value: UUID, depth: Int) throws(WireFailure) {
        try requireDepth(1, below: depth)
        appendHead(MajorType.tag, Tag.uuid)
        appendHead(MajorType.bytes, 16)
        let id = value.uuid
        append(id.0); append(id.1); append(id.2); append(id.3); append(id.4); append(id.5); append(id.6); append(id.7)
        append(id.8); append(id.9); append(id.10); append(id.11); append(id.12); append(id.13); append(id.14)
        append(id.15)
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
