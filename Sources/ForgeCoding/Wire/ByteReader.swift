/// A bounds-checked reader of CBOR items.
///
/// It owns its bytes, so a decoder that the app retains stays valid; a decoder is an object, which cannot hold a span.
/// Each read takes the offset of an item, which it advances past what it has read, and `levels`: the remaining nesting
/// depth, the item included.
struct ByteReader {
    let bytes: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
    }

    var count: Int {
        @inline(__always) get { bytes.count }
    }

    @inline(__always)
    subscript(offset: Int) -> UInt8 { bytes.span[offset] }

    /// The first byte of an item, which stays unread.
    @inline(__always)
    func peek(_ offset: Int) throws(WireFailure) -> UInt8 {
        guard offset < count else { throw .truncated(offset: offset) }
        return self[offset]
    }

    /// Reads the first byte of an item and the big-endian number after it; returns the number.
    @inline(__always)
    func argument<Value: FixedWidthInteger & BitwiseCopyable>(
        _ offset: inout Int, as type: Value.Type
    ) throws(WireFailure) -> Value {
        let size = MemoryLayout<Value>.size
        guard count &- offset > size else { throw .truncated(offset: offset) }
        let value = bytes.span.load(offset &+ 1, as: Value.self)
        offset &+= 1 &+ size
        return Value(bigEndian: value)
    }

    /// Reads an item's head; returns its argument, which is a value or a length.
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

    /// Reads the number of entries from an array or map head; nil for an indefinite length.
    ///
    /// - Throws: ``WireFailure/truncated(offset:)`` if the remaining bytes cannot hold the entries, so that callers may
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

    /// The error for an item of another type than requested; its first byte must exist.
    func mismatch(_ offset: Int) -> WireFailure {
        let first = self[offset]
        if first == Simple.break || 28...30 ~= first & ~MajorType.mask { return .malformed(offset: offset) }
        if first == Simple.null || first == Simple.undefined { return .null }
        return .mismatch(found: MajorType.name(of: first))
    }
}

// MARK: Nesting and tags

extension ByteReader {
    /// The remaining nesting depth of the content of an array, a map or a tag.
    @inline(__always)
    func inside(_ levels: Int) throws(WireFailure) -> Int {
        guard levels > 0 else { throw .tooDeep }
        return levels &- 1
    }

    /// Reads the number of a tag and reduces `levels` to the depth of its content; nil if the item has no tag.
    @inline(__always)
    func tag(_ offset: inout Int, _ levels: inout Int) throws(WireFailure) -> UInt64? {
        guard try peek(offset) & MajorType.mask == MajorType.tag else { return nil }
        levels = try inside(levels)
        return try head(&offset)
    }

    /// Skips unknown tags, reads the number of the first known tag, and reduces `levels` to the depth of the content;
    /// nil if the item has no known tag.
    @inline(__always)
    func knownTag(_ offset: inout Int, _ levels: inout Int) throws(WireFailure) -> UInt64? {
        while let tag = try tag(&offset, &levels) {
            if Tag.name(of: tag) != nil { return tag }
        }
        return nil
    }

    /// Skips unknown tags and `accepted`, and returns the remaining nesting depth of their content.
    ///
    /// - Throws: ``WireFailure/mismatch(found:)`` for any other known tag: its content belongs to another type.
    @inline(__always)
    @discardableResult
    func skipTags(_ offset: inout Int, _ levels: Int, and accepted: UInt64? = nil) throws(WireFailure) -> Int {
        var levels = levels
        while let tag = try tag(&offset, &levels) {
            if tag != accepted, let found = Tag.name(of: tag) { throw .mismatch(found: found) }
        }
        return levels
    }

    /// Skips one item.
    ///
    /// - Throws: the failure that makes the item malformed.
    func skip(_ offset: inout Int, _ levels: Int) throws(WireFailure) {
        let first = try peek(offset)
        switch first & MajorType.mask {
        case MajorType.unsigned, MajorType.negative:
            _ = try head(&offset)
        case MajorType.bytes:
            if try definiteContent(&offset) == nil { _ = try chunks(&offset) }
        case MajorType.text:
            try skipText(&offset)
        case MajorType.array:
            try skipEntries(&offset, itemsPerEntry: 1, levels)
        case MajorType.map:
            try skipEntries(&offset, itemsPerEntry: 2, levels)
        case MajorType.tag:
            let contentLevels = try inside(levels)
            _ = try head(&offset)
            try skip(&offset, contentLevels)
        default:
            try skipSimple(&offset)
        }
    }

    private func skipText(_ offset: inout Int) throws(WireFailure) {
        let start = offset
        if let content = try definiteContent(&offset) {
            guard isText(content) else { throw .invalidText(offset: start) }
            return
        }
        for chunk in try chunks(&offset) where !isText(chunk) { throw .invalidText(offset: start) }
    }

    private func skipEntries(_ offset: inout Int, itemsPerEntry: Int, _ levels: Int) throws(WireFailure) {
        let contentLevels = try inside(levels)
        if let entries = try entryCount(&offset, itemsPerEntry: itemsPerEntry) {
            for _ in 0..<(entries * itemsPerEntry) { try skip(&offset, contentLevels) }
            return
        }
        while try peek(offset) != Simple.break {
            for _ in 0..<itemsPerEntry { try skip(&offset, contentLevels) }
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

// MARK: Strings

extension ByteReader {
    /// Reads the content of a string of a known length; returns its range.
    @inline(__always)
    private func content(_ length: UInt64, _ offset: inout Int) throws(WireFailure) -> Range<Int> {
        guard length <= UInt64(count &- offset) else { throw .truncated(offset: offset) }
        let start = offset
        offset &+= Int(truncatingIfNeeded: length)
        return start..<offset
    }

    /// Reads the head and content of a string; returns the range of the content. Returns nil, with nothing read, if the
    /// length is indefinite.
    @inline(__always)
    func definiteContent(_ offset: inout Int) throws(WireFailure) -> Range<Int>? {
        guard try peek(offset) & ~MajorType.mask != MajorType.indefinite else { return nil }
        let length = try head(&offset)
        return try content(length, &offset)
    }

    /// Reads a string of indefinite length; returns the ranges of its chunks.
    func chunks(_ offset: inout Int) throws(WireFailure) -> [Range<Int>] {
        let first = try peek(offset)
        var chunks: [Range<Int>] = []
        offset += 1
        while try peek(offset) != Simple.break {
            // A chunk is a definite-length string of the same major type.
            guard self[offset] & MajorType.mask == first & MajorType.mask else { throw .malformed(offset: offset) }
            let length = try head(&offset)
            chunks.append(try content(length, &offset))
        }
        offset += 1
        return chunks
    }

    /// Reads a map key, a definite-length text string; returns its range, not yet validated as UTF-8.
    @inline(__always)
    func key(_ offset: inout Int) throws(WireFailure) -> Range<Int> {
        let first = try peek(offset)
        guard first & MajorType.mask == MajorType.text, first != MajorType.text | MajorType.indefinite else {
            throw .unsupportedKey(offset: offset)
        }
        let length = try head(&offset)
        return try content(length, &offset)
    }

    /// The fingerprint of a key name; nil if `range`, which a read returned, contains another name.
    @inline(__always)
    func fingerprint(of name: inout String, in range: Range<Int>) -> UInt64? {
        bytes.span.fingerprint(of: &name, in: range)
    }

    /// Whether the bytes of a range that a read returned are valid UTF-8.
    @inline(__always)
    func isText(_ range: Range<Int>) -> Bool { UTF8Check.isValid(bytes.span, range) }

    /// The string in a range that a read returned; `start` is the offset that an error names.
    ///
    /// `String(validating:as:)` is not used: it looks up type metadata in every call.
    @inline(__always)
    func text(_ range: Range<Int>, _ start: Int) throws(WireFailure) -> String {
        guard isText(range) else { throw .invalidText(offset: start) }
        return bytes.span.text(range)
    }
}
