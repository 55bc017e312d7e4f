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
