/// A position in an array.
struct ArrayCursor {
    let count: Int?

    /// The remaining nesting depth of the elements.
    let levels: Int

    private(set) var next: Int
    private(set) var consumedCount = 0

    init(_ reader: ByteReader, _ start: Int) throws(WireFailure) {
        var offset = start
        let content = try reader.skipTags(&offset)
        guard reader[offset] & MajorType.mask == MajorType.array else { throw reader.mismatch(offset) }
        levels = try content.inside().levels
        count = try reader.entryCount(&offset, itemsPerEntry: 1)
        next = offset
    }

    /// Whether all elements have been read; false for a truncated array, so that the next read throws.
    @inline(__always)
    func isAtEnd(_ reader: ByteReader) -> Bool {
        if let count { return consumedCount >= count }
        return next < reader.count && reader[next] == Simple.break
    }

    @inline(__always)
    mutating func advance(to end: Int) {
        next = end
        consumedCount += 1
    }

    /// The offset after the array; nil before its last element has been read.
    @inline(__always)
    func end(_ reader: ByteReader) -> Int? {
        guard isAtEnd(reader) else { return nil }
        return count == nil ? next + 1 : next
    }

    /// The number of elements, counted if the length is indefinite; nil if the array is malformed.
    func countingElements(_ reader: ByteReader) -> Int? {
        if let count { return count }
        var rest = self
        while !rest.isAtEnd(reader) {
            var offset = rest.next
            do throws(WireFailure) {
                try reader.skip(&offset, levels: levels)
            } catch {
                // `count` cannot throw; reading the element does.
                return nil
            }
            rest.advance(to: offset)
        }
        return rest.consumedCount
    }
}
