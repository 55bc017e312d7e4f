// Memory safety: The bytes of a name are compared and copied in the closure that provides them. The snapshot owns the
// values that its index refers to, and no longer changes them.

/// All names and values of a store at one instant.
///
/// Names are compared byte by byte, as keys are. It takes a little more memory than its names and encoded values have bytes;
/// it shares those of more than a kilobyte with the store. A look-up takes O(1).
public struct KVSnapshot: Sendable {
    private let content: Content

    /// The path of the store on disk, for errors.
    var store: String?

    /// Creates a snapshot of entries; the later of two entries with one name wins.
    public init(_ entries: some Sequence<(name: String, entry: KVEntry)>) {
        var values = CollectedValues()
        for (name, entry) in entries {
            unsafe KeyName(name).withBytes {
                unsafe values.append($0, EncodedCell(entry.bytes, revision: entry.revision))
            }
        }
        self.init(values)
    }

    /// Creates a snapshot of what a layer makes of the entries of another one.
    init(_ entries: some Sequence<(name: String, entry: KVEntry)>, above base: KVSnapshot) {
        self.init(entries)
        store = base.store
    }

    /// Creates a snapshot of values, in which the later of two with one name wins.
    init(_ values: consuming CollectedValues) {
        content = Content(values)
    }

    /// The number of names.
    public var count: Int { content.count }

    /// Whether the snapshot has no names.
    public var isEmpty: Bool { count == 0 }

    /// The names, in no particular order.
    public var names: [String] {
        var names: [String] = []
        names.reserveCapacity(count)
        content.forEachRecord { names.append(content.values.name(of: $0)) }
        return names
    }

    /// The entry of a name; nil if it is absent.
    public subscript(name: String) -> KVEntry? { content.entry(of: KeyName(name)) }

    /// The value of a key; nil if it is absent.
    ///
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` if the value is not of the key's type.
    public func read<T>(_ key: KVKey<T>) throws -> T? {
        guard let entry = content.entry(of: key.identity) else { return nil }
        do throws(KVStoreError) {
            return try key.decode(entry.bytes)
        } catch {
            var failure = error
            failure.store = store
            throw failure
        }
    }
}

extension KVSnapshot {
    /// The values whose names begin with a prefix, with their keys, in the order of the bytes of their names.
    ///
    /// ```swift
    /// let notes = try store.snapshot().values(of: String.self, prefix: "note.")
    /// ```
    ///
    /// - Parameters:
    ///   - type: The type of the values.
    ///   - prefix: The prefix of the names, compared byte by byte.
    ///   - migrations: Those of the keys of the values, if the type has had several versions.
    /// - Returns: The values with their keys, which have these migrations.
    /// - Throws: ``KVStoreError``: `.undecodable` or `.newerSchema(version:)` for the first value that is not of the
    ///   type.
    /// - Complexity: O(*n* + *m* log *m*) for *n* names, *m* of them with the prefix
    public func values<T: Codable & Sendable>(
        of type: T.Type, prefix: String, migrations: [KVMigration<T>] = []
    ) throws -> [(key: KVKey<T>, value: T)] {
        let names = names.filter { $0.utf8.starts(with: prefix.utf8) }
        let schema = KVKey("", migrations: migrations).schema
        return try names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.compactMap { name in
            let key = KVKey(KeyName(name), schema)
            return try read(key).map { (key, $0) }
        }
    }
}

extension KVSnapshot: Sequence {
    /// The names with their entries, in no particular order.
    public func makeIterator() -> some IteratorProtocol<(name: String, entry: KVEntry)> { Entries(content) }

    private struct Entries: IteratorProtocol {
        private let content: Content
        private var place: CollectedValues.Place

        init(_ content: Content) {
            self.content = content
            place = content.values.start
        }

        mutating func next() -> (name: String, entry: KVEntry)? {
            while let record = content.values.record(at: place) {
                place = content.values.place(after: record)
                guard !content.isSuperseded(record) else { continue }
                return (content.values.name(of: record), content.values.entry(of: record))
            }
            return nil
        }
    }
}

// MARK: Content

extension KVSnapshot {
    /// The values, and where the record of a name is.
    private final class Content: Sendable {
        let values: CollectedValues

        /// The number of names.
        let count: Int

        private let index: NameIndex

        /// Earlier records of names that have several.
        private let superseded: Set<UInt64>

        init(_ values: consuming CollectedValues) {
            var index = NameIndex(capacity: values.count)
            var superseded: Set<UInt64> = []
            var place = values.start
            while let record = values.record(at: place) {
                let earlier = unsafe values.withBytes(of: record) { name, _ in
                    unsafe index.insert(record, name, of: values)
                }
                if let earlier { superseded.insert(earlier) }
                place = values.place(after: record)
            }
            count = values.count - superseded.count
            self.index = index
            self.superseded = superseded
            self.values = values
        }

        func entry(of name: KeyName) -> KVEntry? {
            unsafe name.withBytes { unsafe index.find($0, hash: name.hash, in: values) }.map { values.entry(of: $0) }
        }

        func isSuperseded(_ record: CollectedValues.Record) -> Bool {
            !superseded.isEmpty && superseded.contains(record.place.word)
        }

        func forEachRecord(_ body: (CollectedValues.Record) -> Void) {
            var place = values.start
            while let record = values.record(at: place) {
                if !isSuperseded(record) { body(record) }
                place = values.place(after: record)
            }
        }
    }

    /// A hash table of the places of records, open addressing with linear probing, at most two thirds full.
    ///
    /// A slot is 0 if it is empty, and otherwise the place of a record above, and one more than the lowest bits of the
    /// hash of its name below.
    private struct NameIndex {
        private var slots: [UInt64]

        private static let placeBits = UInt64(CollectedValues.Place.bits)

        init(capacity: Int) {
            slots = Array(repeating: 0, count: capacity + capacity / 2 + 1)
        }

        /// Puts a record into the place of an earlier one with its name, whose place it returns as a word; nil if there
        /// is none.
        mutating func insert(
            _ record: CollectedValues.Record, _ name: UnsafeRawBufferPointer, of values: borrowing CollectedValues
        ) -> UInt64? {
            let hash = unsafe KeyHash.hash(name)
            let (position, earlier) = unsafe search(name, hash, values)
            slots[position] = Self.slot(hash, record.place)
            return earlier?.place.word
        }

        func find(
            _ name: UnsafeRawBufferPointer, hash: UInt64, in values: borrowing CollectedValues
        ) -> CollectedValues.Record? { unsafe search(name, hash, values).record }

        /// The slot of a name and its record, or the empty slot for it.
        private func search(
            _ name: UnsafeRawBufferPointer, _ hash: UInt64, _ values: borrowing CollectedValues
        ) -> (position: Int, record: CollectedValues.Record?) {
            // Distributes the hashes evenly over any number of slots.
            var position = Int(hash.multipliedFullWidth(by: UInt64(slots.count)).high)
            while slots[position] != 0 {
                if (slots[position] ^ Self.slot(hash, values.start)) >> Self.placeBits == 0,
                    let record = values.record(at: CollectedValues.Place(word: (slots[position] & Self.placeMask) - 1)),
                    unsafe values.withBytes(of: record, { other, _ in unsafe other.isEqual(to: name) })
                {
                    return (position, record)
                }
                position = position + 1 == slots.count ? 0 : position + 1
            }
            return (position, nil)
        }

        private static let placeMask: UInt64 = 1 << placeBits - 1

        private static func slot(_ hash: UInt64, _ place: CollectedValues.Place) -> UInt64 {
            hash << placeBits | (place.word + 1)
        }
    }
}
