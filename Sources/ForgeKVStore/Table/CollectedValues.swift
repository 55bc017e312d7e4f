import ForgeCoding

/// Names and values of a table for a new log. Short values are copied as bytes, because an object for each would take
/// most of the time of a compaction.
struct CollectedValues: ~Copyable {
    private struct Item {
        var revision: UInt64

        /// Where the name begins in `bytes`; the value follows unless it is in the cell.
        var offset: Int
        var nameCount: Int
        var valueCount: Int
        var cell: ValueCell?
    }

    private var items: [Item] = []
    private var bytes: [UInt8] = []
    private var encoder = PlainEncoder()

    /// Longer values are not copied.
    private static let maximumCopiedSize = ValueArena.maximumValueSize

    /// Adds the name and value of an entry, if there is a value. For the writer.
    mutating func append(_ entry: KeyEntry) {
        let content = entry.content
        guard content.kind != EntryContent.emptyKind else { return }
        let offset = bytes.count
        bytes.append(contentsOf: entry.nameBytes)
        var kept: ValueCell?
        if content.kind == EntryContent.encoded {
            bytes.append(contentsOf: content.encodedBytes)
        } else if let cell = content.ownCell?.takeUnretainedValue() {
            if cell.encodedSize > Self.maximumCopiedSize { kept = cell } else { bytes.append(contentsOf: cell.bytes) }
        } else {
            bytes.append(contentsOf: InlineTypes.encode(content, by: &encoder))
        }
        items.append(
            Item(
                revision: content.revision, offset: offset, nameCount: entry.nameCount,
                valueCount: bytes.count - offset - entry.nameCount, cell: kept))
    }

    mutating func removeAll() {
        items = []
        bytes = []
    }

    /// Calls `body` with every name, value and revision, in ascending order of the revisions.
    ///
    /// - Complexity: O(*n* log *n*)
    mutating func forEach<Failure>(
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, UInt64) throws(Failure) -> Void
    ) throws(Failure) {
        items.sort { $0.revision < $1.revision }
        try bytes.withBytes { (bytes) throws(Failure) in
            for item in items {
                let name = UnsafeRawBufferPointer(rebasing: bytes[item.offset..<item.offset + item.nameCount])
                guard let cell = item.cell else {
                    let start = item.offset + item.nameCount
                    let value = UnsafeRawBufferPointer(rebasing: bytes[start..<start + item.valueCount])
                    try body(name, value, item.revision)
                    continue
                }
                try cell.bytes.withBytes { (value) throws(Failure) in try body(name, value, item.revision) }
            }
        }
    }
}
