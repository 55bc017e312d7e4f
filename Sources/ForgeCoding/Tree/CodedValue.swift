public import Foundation

/// A stored value as a tree, for tools that do not know its type.
///
/// A payload of ``BinaryEncoder`` round-trips byte for byte. Floating-point numbers compare as numbers, so a tree that
/// contains NaN does not equal itself, and texts as Swift's strings, so canonically equal ones are equal.
public indirect enum CodedValue: Sendable, Hashable {
    /// Null.
    case null
    /// A Boolean.
    case bool(Bool)
    /// An integer in the range of `Int64`.
    case integer(Int64)
    /// An integer beyond the range of ``integer(_:)``.
    case unsigned(UInt64)
    /// A `Float`, or a half-precision number.
    case float(Float)
    /// A `Double`.
    case double(Double)
    /// A string.
    case string(String)
    /// A byte string: `Data`, `[UInt8]`.
    case bytes([UInt8])
    /// A date.
    case date(Date)
    /// An unkeyed container.
    case array([CodedValue])
    /// A keyed container, in encoded order.
    case map([Entry])
    /// A tag number and the tagged value: 2 and 3 bignum, 4 `Decimal`, 32 `URL`, 37 `UUID`; other encoders write other
    /// tags.
    case tagged(UInt64, CodedValue)
    /// Another simple value, such as `undefined` (23).
    case simple(UInt8)

    /// A key and its value. ``BinaryEncoder`` writes only string keys.
    public struct Entry: Sendable, Hashable {
        /// The key.
        public var key: CodedValue
        /// The value.
        public var value: CodedValue

        /// Creates an entry.
        public init(_ key: CodedValue, _ value: CodedValue) {
            self.key = key
            self.value = value
        }
    }

    /// The maximum nesting depth.
    public static let maximumDepth = 64

    /// The value under a string key of a map; nil if there is none. Keys are compared by their UTF-8.
    ///
    /// - Complexity: O(n) in the number of entries.
    public subscript(key: String) -> CodedValue? {
        guard case .map(let entries) = self else { return nil }
        return entries.first { $0.key.isString(key) }?.value
    }

    private func isString(_ text: String) -> Bool {
        guard case .string(let own) = self else { return false }
        return own.utf8.elementsEqual(text.utf8)
    }
}

extension CodedValue: CustomStringConvertible {
    public var description: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .integer(let value): "\(value)"
        case .unsigned(let value): "\(value)"
        case .float(let value): "\(value)"
        case .double(let value): "\(value)"
        case .string(let value): value.debugDescription
        case .bytes(let value): "\(value.count) bytes"
        // Foundation traps when it describes a date that no calendar has.
        case .date(let value): "date(\(value.timeIntervalSince1970))"
        case .array(let elements): "\(elements)"
        case .map(let entries): "{" + entries.map { "\($0.key): \($0.value)" }.joined(separator: ", ") + "}"
        case .tagged(let tag, let value): "\(tag)(\(value))"
        case .simple(let value): "simple(\(value))"
        }
    }
}

extension CodedValue {
    /// Decodes a payload, or CBOR from another encoder.
    ///
    /// - Throws: ``CodingFailure`` for input that is not exactly one well-formed item, duplicate keys in a map, invalid
    ///   UTF-8, and more than ``maximumDepth`` levels of arrays, maps and tags.
    public init(decoding payload: [UInt8]) throws {
        self = try Self.decode(payload[...])
    }

    /// Decodes the payload of an envelope.
    ///
    /// - Throws: The errors of ``init(decoding:)-([UInt8])``.
    public init(decoding envelope: ValueEnvelope) throws {
        self = try Self.decode(envelope.payload)
    }

    private static func decode(_ bytes: ArraySlice<UInt8>) throws(CodingFailure) -> CodedValue {
        let reader = ByteReader(bytes)
        var offset = 0
        do throws(WireFailure) {
            let value = try reader.tree(&offset, levels: maximumDepth)
            guard offset == reader.count else { throw .trailing(offset: offset) }
            return value
        } catch {
            switch error {
            case .truncated: throw CodingFailure(.decode, .truncated)
            case .tooDeep: throw CodingFailure(.decode, .tooDeep(limit: maximumDepth))
            default: throw CodingFailure(.decode, .corrupted(error.reason))
            }
        }
    }
}

extension ByteReader {
    fileprivate func tree(_ offset: inout Int, levels: Int) throws(WireFailure) -> CodedValue {
        let first = try peek(offset)
        switch first & MajorType.mask {
        case MajorType.unsigned:
            let value = try head(&offset)
            return Int64(exactly: value).map { .integer($0) } ?? .unsigned(value)
        case MajorType.negative:
            let value = try head(&offset)
            return Int64(exactly: value).map { .integer(~$0) }
                ?? .tagged(Tag.negativeBignum, .bytes(value.bigEndianBytes))
        case MajorType.bytes: return .bytes(try byteString(&offset, levels))
        case MajorType.text: return .string(try string(&offset, levels))
        case MajorType.array: return .array(try elements(&offset, levels: levels))
        case MajorType.map: return .map(try entries(&offset, levels: levels))
        case MajorType.tag: return try tagged(&offset, levels: levels)
        default: return try simple(&offset)
        }
    }

    private func elements(_ offset: inout Int, levels: Int) throws(WireFailure) -> [CodedValue] {
        guard levels > 0 else { throw .tooDeep }
        var elements: [CodedValue] = []
        guard let count = try entryCount(&offset, itemsPerEntry: 1) else {
            while try peek(offset) != Simple.break { elements.append(try tree(&offset, levels: levels - 1)) }
            offset += 1
            return elements
        }
        // A node is larger than its encoding, so memory grows with the elements read, not with the claimed count.
        for _ in 0..<count { elements.append(try tree(&offset, levels: levels - 1)) }
        return elements
    }

    private func entries(_ offset: inout Int, levels: Int) throws(WireFailure) -> [CodedValue.Entry] {
        guard levels > 0 else { throw .tooDeep }
        var entries: [CodedValue.Entry] = []
        var keys: Set<MapKey> = []
        let count = try entryCount(&offset, itemsPerEntry: 2)
        while count.map({ entries.count < $0 }) ?? true {
            if count == nil, try peek(offset) == Simple.break {
                offset += 1
                break
            }
            let start = offset
            let key = try tree(&offset, levels: levels - 1)
            guard keys.insert(MapKey(key)).inserted else { throw .duplicateKey(offset: start) }
            entries.append(.init(key, try tree(&offset, levels: levels - 1)))
        }
        return entries
    }

    private func tagged(_ offset: inout Int, levels: Int) throws(WireFailure) -> CodedValue {
        guard levels > 0 else { throw .tooDeep }
        let start = offset
        let tag = try head(&offset)
        let content = try tree(&offset, levels: levels - 1)
        switch (tag, content) {
        case (Tag.epochDate, .integer(let seconds)) where seconds.magnitude <= 1 << 53:
            return .date(Date(timeIntervalSince1970: Double(seconds)))
        case (Tag.epochDate, .double(let seconds)):
            return .date(Date(timeIntervalSince1970: seconds))
        case (Tag.referenceDate, .double(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: seconds))
        case (Tag.bignum, .bytes(let digits)), (Tag.negativeBignum, .bytes(let digits)):
            // A bignum and an integer of equal value are the same value (RFC 8949, section 3.4.3).
            guard let short = UInt64(bigEndianBytes: digits) else { return .tagged(tag, content) }
            if tag == Tag.bignum { return Int64(exactly: short).map { .integer($0) } ?? .unsigned(short) }
            return Int64(exactly: short).map { .integer(~$0) } ?? .tagged(tag, .bytes(short.bigEndianBytes))
        case (Tag.bignum, _), (Tag.negativeBignum, _):
            throw .invalidContent(offset: start)
        default:
            return .tagged(tag, content)
        }
    }

    private func simple(_ offset: inout Int) throws(WireFailure) -> CodedValue {
        let start = offset
        let first = self[offset]
        switch first {
        case Simple.false, Simple.true: return .bool(try bool(&offset, 0))
        case Simple.half, Simple.float: return .float(try float(&offset, 0))
        case Simple.double: return .double(try double(&offset, 0))
        default:
            try skip(&offset, 0)
            if first == Simple.null { return .null }
            return .simple(first == Simple.extended ? self[start + 1] : first & ~MajorType.mask)
        }
    }
}

/// A key of a map, to detect duplicates. Canonically equivalent strings are different keys.
private enum MapKey: Hashable {
    case text([UInt8])
    case other(CodedValue)

    init(_ key: CodedValue) {
        if case .string(let name) = key { self = .text(Array(name.utf8)) } else { self = .other(key) }
    }
}

extension UInt64 {
    /// The big-endian bytes without leading zeros.
    var bigEndianBytes: [UInt8] {
        (0..<8).reversed().map { UInt8(truncatingIfNeeded: self >> UInt64(8 * $0)) }.drop { $0 == 0 }.map { $0 }
    }

    /// Creates a number from big-endian bytes; nil for more than eight bytes after leading zeros.
    init?(bigEndianBytes: [UInt8]) {
        let digits = bigEndianBytes.drop { $0 == 0 }
        guard digits.count <= 8 else { return nil }
        self = digits.reduce(0) { $0 << 8 | UInt64($1) }
    }
}

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
        case .bytes(let value): appendByteString(value.span)
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
