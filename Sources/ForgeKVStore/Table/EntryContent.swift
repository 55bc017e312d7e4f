/// The content of an entry: nothing, a cell, an encoded value in the table's arena, or an inline value.
struct EntryContent {
    /// Room for a value of one of the ``InlineTypes`` on every platform, or for the address of a cell and the
    /// ``CellType/decodedTag`` of the value in it.
    typealias Words = (UInt64, UInt64)

    /// ``emptyKind``, ``cell``, ``encoded``, or the kind of the value's type among the ``InlineTypes``.
    var kind: UInt8
    var words: Words
    /// The sequence number of the write that stored the value.
    var revision: UInt64
    var encodedSize: Int

    static let emptyKind: UInt8 = 0
    static let cell: UInt8 = 1

    /// The kind of an encoded value in the arena; `words` are its address and capacity.
    static let encoded: UInt8 = 254

    /// No value.
    static let empty = EntryContent(kind: emptyKind, words: (0, 0), revision: 0, encodedSize: 0)

    /// A cell. The owner of this content owns the cell.
    init(_ cell: consuming ValueCell) {
        revision = cell.revision
        encodedSize = cell.encodedSize
        kind = Self.cell
        let tag = cell.type.decodedTag
        words = (UInt64(UInt(bitPattern: Unmanaged.passRetained(cell).toOpaque())), tag)
    }

    /// A value of one of the ``InlineTypes``. The owner of this content owns the value.
    @inline(__always)
    init<Value>(_ value: Value, revision: UInt64, encodedSize: Int) {
        kind = InlineTypes.kind(of: Value.self)
        words = InlineTypes.words(value)
        self.revision = revision
        self.encodedSize = encodedSize
    }

    init(kind: UInt8, words: Words, revision: UInt64, encodedSize: Int) {
        self.kind = kind
        self.words = words
        self.revision = revision
        self.encodedSize = encodedSize
    }

    /// The address of the cell whose words these are.
    @inline(__always)
    static func cellAddress(_ words: Words) -> UnsafeRawPointer {
        // Never zero where the kind is that of a cell.
        UnsafeRawPointer(bitPattern: UInt(truncatingIfNeeded: words.0)).unsafelyUnwrapped
    }

    /// The cell; nil for content of another kind.
    @inline(__always)
    var ownCell: Unmanaged<ValueCell>? { kind == Self.cell ? .fromOpaque(Self.cellAddress(words)) : nil }

    /// The value as a cell, a new one for an inline or encoded value; nil for no value. For the writer: under its lock
    /// nothing is retired, so a reference may be counted anywhere.
    var asCell: ValueCell? {
        switch kind {
        case Self.emptyKind: nil
        case Self.cell: ownCell?.takeUnretainedValue()
        case Self.encoded: copyOfEncodedValue
        default: InlineTypes.cell(self)
        }
    }
}

// MARK: Values as they were loaded

extension EntryContent {
    /// An encoded value in the table's arena.
    init(encoded address: UnsafeMutableRawPointer, count: Int, revision: UInt64) {
        self.init(
            kind: Self.encoded, words: (UInt64(UInt(bitPattern: address)), UInt64(count)), revision: revision,
            encodedSize: count)
    }

    /// The address of an encoded value in the arena.
    var encodedAddress: UnsafeMutableRawPointer? {
        UnsafeMutableRawPointer(bitPattern: UInt(truncatingIfNeeded: words.0))
    }

    /// A cell with a copy of an encoded value, for the writer and for readers inside a critical section. Nothing in the
    /// cell refers to the arena.
    @inline(never)
    var copyOfEncodedValue: EncodedCell {
        EncodedCell.copying(encodedBytes, revision: revision, type: .unknown)
    }

    /// An encoded value in the arena; valid while the arena keeps it.
    var encodedBytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: encodedAddress, count: encodedSize) }

    /// The capacity of an encoded value in the arena.
    var encodedCapacity: Int { Int(words.1) }

    /// Another encoded value at the same address.
    func reusingPlace(count: Int, revision: UInt64) -> EntryContent {
        EntryContent(kind: kind, words: words, revision: revision, encodedSize: count)
    }
}
