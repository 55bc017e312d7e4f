/// The position in a map where the next key is expected.
///
/// Trivial fields only, so that access needs no reference counting.
struct MapCursor {
    /// The offset of the first key.
    var content = 0

    /// The number of entries; nil for an indefinite length.
    var count: Int?

    /// The remaining nesting depth of the values.
    var levels = 0

    /// The offset of the next key.
    var next = 0

    /// The number of entries before the next key.
    var consumedCount = 0

    /// The keys before the next one.
    var keyFilter = KeyFilter()

    /// Whether lookup uses the index.
    var isIndexed = false

    /// The position in the index that the next lookup tries first.
    var nextIndexPosition = 0

    /// The position of an entry that a lookup found.
    struct Match {
        /// The offset of the value.
        let value: Int
        /// The offset of its key; -1 if the index found it.
        let key: Int
        let fingerprint: UInt64
    }

    init() {}

    /// Creates a cursor for the map at an offset.
    init(_ reader: ByteReader, _ start: Int) throws(WireFailure) {
        var offset = start
        let tagged = try reader.skipTags(&offset)
        guard reader[offset] & MajorType.mask == MajorType.map else { throw reader.mismatch(offset) }
        levels = try tagged.inside().levels
        count = try reader.entryCount(&offset, itemsPerEntry: 2)
        content = offset
        next = offset
    }
}
