extension ByteReader {
    /// Passes over one item of any kind, and checks that it is well-formed.
    ///
    /// - Parameter levels: how many arrays, maps and tags may lie within one another.
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

    /// Calls `body` with the content of a string; several times if it comes in chunks up to a break.
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
        // Two bytes for a simple value that has a one-byte form are not well-formed (RFC 8949, section 3.3).
        if self[start] == Simple.extended, value < 32 { throw .malformed(offset: start) }
    }
}

/// A check of text that needs no string.
enum UTF8Check {
    static func isValid(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        let raw = UnsafeRawBufferPointer(bytes)
        var offset = 0
        while offset < bytes.count {
            if bytes.count - offset >= 8,
                raw.loadUnaligned(fromByteOffset: offset, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
            {
                offset += 8
                continue
            }
            let length = sequenceLength(bytes, offset)
            guard length > 0 else { return false }
            offset += length
        }
        return true
    }

    /// The length of the sequence at an offset (Unicode, table 3-7); 0 for one that is ill-formed.
    private static func sequenceLength(_ bytes: UnsafeBufferPointer<UInt8>, _ offset: Int) -> Int {
        let first = bytes[offset]
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch first {
        case 0x00...0x7F: return 1
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: length = 4
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        default: return 0
        }
        guard bytes.count - offset >= length, second.contains(bytes[offset + 1]) else { return 0 }
        for index in 2..<max(length, 2) where bytes[offset + index] & 0xC0 != 0x80 { return 0 }
        return length
    }
}
