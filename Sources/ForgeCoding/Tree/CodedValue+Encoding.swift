import Foundation

extension CodedValue {
    /// Encodes the tree as a payload.
    ///
    /// Reproduces a payload of ``BinaryEncoder`` byte for byte; a payload of another encoder is normalised.
    ///
    /// - Throws: ``CodingFailure`` for a tree deeper than ``maximumDepth``, which could not be decoded.
    public func encoded() throws -> [UInt8] {
        let sink = ByteSink(capacity: 256, maximumDepth: Self.maximumDepth, userInfo: [:])
        do throws(WireFailure) {
            try sink.append(self, depth: 0)
        } catch {
            throw CodingFailure(.encode, .tooDeep(limit: Self.maximumDepth))
        }
        return sink.bytes
    }
}

extension ByteSink {
    fileprivate func append(_ value: CodedValue, depth: Int) throws(WireFailure) {
        switch value {
        case .null: appendNull()
        case .bool(let value): append(value)
        case .integer(let value): appendSigned(value)
        case .unsigned(let value): appendUnsigned(value)
        case .float(let value): append(value)
        case .double(let value): append(value)
        case .string(let value): append(value)
        case .bytes(let value): value.withUnsafeBytes { appendByteString($0) }
        case .date(let value): try append(value, depth: depth)
        case .array(let elements):
            try requireDepth(1, below: depth)
            appendHead(MajorType.array, UInt64(elements.count))
            for element in elements { try append(element, depth: depth + 1) }
        case .map(let entries):
            try requireDepth(1, below: depth)
            appendHead(MajorType.map, UInt64(entries.count))
            for entry in entries {
                try append(entry.key, depth: depth + 1)
                try append(entry.value, depth: depth + 1)
            }
        case .tagged(let tag, let content): try append(tag, content, depth)
        case .simple(let value):
            // The values from 24 to 31 are reserved; they are written as undefined.
            if value < 24 {
                append(MajorType.simple | value)
            } else if value < 32 {
                append(Simple.undefined)
            } else {
                append(Simple.extended, value)
            }
        }
    }

    private func append(_ tag: UInt64, _ content: CodedValue, _ depth: Int) throws(WireFailure) {
        if tag == Tag.bignum || tag == Tag.negativeBignum, case .bytes(let digits) = content,
            let short = UInt64(bigEndianBytes: digits)
        {
            appendHead(tag == Tag.bignum ? MajorType.unsigned : MajorType.negative, short)
            return
        }
        try requireDepth(1, below: depth)
        appendHead(MajorType.tag, tag)
        try append(content, depth: depth + 1)
    }
}
