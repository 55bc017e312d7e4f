/// A bounds-checked reader of CBOR items.
///
/// Invariant: offsets never exceed `count`. After decoding ends, a decoder that the caller retained holds an empty
/// reader, so it cannot read freed memory.
struct ByteReader {
    private let base: UnsafePointer<UInt8>?
    let count: Int

    /// The remaining nesting depth of the next item, itself included.
    private(set) var levels: Int

    init(_ bytes: UnsafeRawBufferPointer, levels: Int = .max) {
        base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        count = bytes.count
        self.levels = levels
    }

    /// The same reader for items of another depth.
    @inline(__always)
    func limited(to levels: Int) -> ByteReader {
        var reader = self
        reader.levels = levels
        return reader
    }

    /// The reader of the content of an array, a map or a tag.
    func inside() throws(WireFailure) -> ByteReader {
        guard levels > 0 else { throw .tooDeep }
        return limited(to: levels - 1)
    }

    /// The byte at an offset that is known to be in range.
    @inline(__always)
    subscript(offset: Int) -> UInt8 { base.unsafelyUnwrapped[offset] }

    /// The first byte of an item.
    @inline(__always)
    func peek(_ offset: Int) throws(WireFailure) -> UInt8 {
        guard offset < count else { throw .truncated(offset: offset) }
        return self[offset]
    }

    /// The bytes in a range that a read returned.
    @inline(__always)
    func bytes(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
        guard range.upperBound <= count, let base else { return UnsafeBufferPointer(start: nil, count: 0) }
        return UnsafeBufferPointer(start: base + range.lowerBound, count: range.count)
    }

    /// The `size` big-endian bytes after the first byte of an item, as a number.
    @inline(__always)
    func argument<Value: FixedWidthInteger>(_ offset: inout Int, as type: Value.Type) throws(WireFailure) -> Value {
        let size = MemoryLayout<Value>.size
        guard count &- offset > size, let base else { throw .truncated(offset: offset) }
        let value = UnsafeRawPointer(base + offset + 1).loadUnaligned(as: Value.self)
        offset &+= 1 &+ size
        return Value(bigEndian: value)
    }

    /// Reads the argument of an item's head: its value or length.
    ///
    /// - Throws: ``WireFailure/malformed(offset:)`` for a reserved or indefinite head and for a break.
    @inline(__always)
    func head(_ offset: inout Int) throws(WireFailure) -> UInt64 {
        let low = try peek(offset) & ~MajorType.mask
        guard low >= 24 else {
            offset &+= 1
            return UInt64(low)
        }
        return try longHead(low, &offset)
    }

    @inline(never)
    private func longHead(_ low: UInt8, _ offset: inout Int) throws(WireFailure) -> UInt64 {
        switch low {
        case 24: return UInt64(try argument(&offset, as: UInt8.self))
        case 25: return UInt64(try argument(&offset, as: UInt16.self))
        case 26: return UInt64(try argument(&offset, as: UInt32.self))
        case 27: return try argument(&offset, as: UInt64.self)
        default: throw .malformed(offset: offset)
        }
    }

    /// The range of a string's content, by its length.
    @inline(__always)
    func content(_ length: UInt64, _ offset: inout Int) throws(WireFailure) -> Range<Int> {
        guard length <= UInt64(count &- offset) else { throw .truncated(offset: offset) }
        let start = offset
        offset &+= Int(truncatingIfNeeded: length)
        return start..<offset
    }

    /// The range of a map key: a definite-length text string, not yet validated as UTF-8.
    @inline(__always)
    func key(_ offset: inout Int) throws(WireFailure) -> Range<Int> {
        let first = try peek(offset)
        guard first & MajorType.mask == MajorType.text, first != MajorType.text | MajorType.indefinite else {
            throw .unsupportedKey(offset: offset)
        }
        return try content(head(&offset), &offset)
    }

    /// Reads the number of entries from an array or map head; nil for an indefinite length.
    ///
    /// - Throws: ``WireFailure/truncated(offset:)`` if the remaining bytes cannot hold them, so that callers may
    ///   reserve memory for that many.
    func entryCount(_ offset: inout Int, itemsPerEntry: Int) throws(WireFailure) -> Int? {
        if try peek(offset) & ~MajorType.mask == MajorType.indefinite {
            offset += 1
            return nil
        }
        let entries = try head(&offset)
        guard entries <= UInt64((count - offset) / itemsPerEntry) else { throw .truncated(offset: offset) }
        return Int(entries)
    }

    /// Reads the number of a tag, after which the reader is that of its content; nil if the item has none.
    @inline(__always)
    mutating func tag(_ offset: inout Int) throws(WireFailure) -> UInt64? {
        guard try peek(offset) & MajorType.mask == MajorType.tag else { return nil }
        self = try inside()
        return try head(&offset)
    }

    /// Skips unknown tags, and reads the first known one, after which the reader is that of its content; nil if the item
    /// has none.
    @inline(__always)
    mutating func knownTag(_ offset: inout Int) throws(WireFailure) -> UInt64? {
        while let tag = try tag(&offset) {
            if Tag.name(of: tag) != nil { return tag }
        }
        return nil
    }

    /// Skips unknown tags and `accepted`, and returns the reader of their content.
    ///
    /// - Throws: a mismatch for any other known tag: its content is part of a value of another type.
    @inline(__always)
    @discardableResult
    func skipTags(_ offset: inout Int, and accepted: UInt64? = nil) throws(WireFailure) -> ByteReader {
        var content = self
        while let tag = try content.tag(&offset) {
            if tag != accepted, let found = Tag.name(of: tag) { throw .mismatch(found: found) }
        }
        return content
    }

    /// The error for an item of another type than requested.
    func mismatch(_ offset: Int) -> WireFailure {
        guard offset < count else { return .truncated(offset: offset) }
        let first = self[offset]
        if first == Simple.break || 28...30 ~= first & ~MajorType.mask { return .malformed(offset: offset) }
        if first == Simple.null || first == Simple.undefined { return .null }
        return .mismatch(found: MajorType.name(of: first))
    }
}

extension ByteReader {
    /// Skips one item with at most `levels` nested arrays, maps and tags.
    ///
    /// - Throws: the failure that makes the item malformed.
    func skip(_ offset: inout Int, levels: Int) throws(WireFailure) {
        let first = try peek(offset)
        switch first & MajorType.mask {
        case MajorType.unsigned, MajorType.negative:
            _ = try head(&offset)
        case MajorType.bytes, MajorType.text:
            try skipString(&offset)
        case MajorType.array:
            try skipEntries(&offset, itemsPerEntry: 1, levels: levels)
        case MajorType.map:
            try skipEntries(&offset, itemsPerEntry: 2, levels: levels)
        case MajorType.tag:
            guard levels > 0 else { throw .tooDeep }
            _ = try head(&offset)
            try skip(&offset, levels: levels - 1)
        default:
            try skipSimple(&offset)
        }
    }

    private func skipString(_ offset: inout Int) throws(WireFailure) {
        let start = offset
        let isText = try peek(offset) & MajorType.mask == MajorType.text
        try forEachChunk(&offset) { chunk throws(WireFailure) in
            if isText, !UTF8Check.isValid(chunk) { throw .invalidText(offset: start) }
        }
    }

    /// Calls `body` with the content of a string, once per chunk if its length is indefinite.
    @inline(__always)
    func forEachChunk(
        _ offset: inout Int, _ body: (UnsafeBufferPointer<UInt8>) throws(WireFailure) -> Void
    ) throws(WireFailure) {
        let first = try peek(offset)
        guard first & ~MajorType.mask == MajorType.indefinite else {
            let length = try head(&offset)
            return try body(bytes(content(length, &offset)))
        }
        offset += 1
        while try peek(offset) != Simple.break {
            // A chunk is a definite-length string of the same major type.
            guard self[offset] & MajorType.mask == first & MajorType.mask else { throw .malformed(offset: offset) }
            let length = try head(&offset)
            try body(bytes(content(length, &offset)))
        }
        offset += 1
    }

    private func skipEntries(_ offset: inout Int, itemsPerEntry: Int, levels: Int) throws(WireFailure) {
        guard levels > 0 else { throw .tooDeep }
        if let entries = try entryCount(&offset, itemsPerEntry: itemsPerEntry) {
            for _ in 0..<(entries * itemsPerEntry) { try skip(&offset, levels: levels - 1) }
            return
        }
        while try peek(offset) != Simple.break {
            for _ in 0..<itemsPerEntry { try skip(&offset, levels: levels - 1) }
        }
        offset += 1
    }

    private func skipSimple(_ offset: inout Int) throws(WireFailure) {
        let start = offset
        let value = try head(&offset)
        // A simple value below 32 in two bytes is not well-formed (RFC 8949, section 3.3).
        if self[start] == Simple.extended, value < 32 { throw .malformed(offset: start) }
    }
}
