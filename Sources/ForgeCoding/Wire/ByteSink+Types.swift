import Foundation

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

    /// Appends an optional of a common type, so that a top-level one needs no container.
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
