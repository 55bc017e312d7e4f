import CForgeKVStore

/// Bulk loading without an object for each value: from a log, before there are readers, or from a list, beside readers.
extension TableWriter {
    /// The change that one record of a log makes to one name, in the memory of the record.
    struct LoadedRecord {
        var name: UnsafeRawBufferPointer
        /// Nil for a removal.
        var value: UnsafeRawBufferPointer?
        var revision: UInt64
        var hash: UInt64

        /// The change of a set or a removal.
        @inline(__always)
        init(_ change: LogRecord.PlainChange, revision: UInt64) {
            name = change.name
            value = change.code == .set ? change.value : nil
            self.revision = revision
            hash = KeyHash.hash(change.name)
        }
    }

    /// Begins to fetch the slot of a name, whose place in memory is arbitrary.
    @inline(__always)
    func prefetch(hash: UInt64) { forge_prefetch(table.view.array.slotAddress(hash: hash)) }

    /// Applies records in order.
    mutating func load(_ records: UnsafeBufferPointer<LoadedRecord>) {
        for record in records {
            guard let value = record.value else {
                unload(record)
                continue
            }
            load(value, of: record)
        }
        if hasGarbage { _ = collectGarbage() }
    }

    @inline(__always)
    private mutating func load(_ value: UnsafeRawBufferPointer, of record: LoadedRecord) {
        guard value.count <= ValueArena.maximumValueSize else {
            return store(
                EncodedCell(Array(value), revision: record.revision),
                KeyName(String(decoding: record.name, as: UTF8.self)))
        }
        guard let entry = table.view.array.find(record.name, hash: record.hash) else {
            return insert(
                EntryContent(encoded: copy(value), count: value.count, revision: record.revision),
                record.name, hash: record.hash)
        }
        overwrite(entry, value, record.revision)
    }

    @inline(__always)
    private func copy(_ value: UnsafeRawBufferPointer) -> UnsafeMutableRawPointer {
        arena._withUnsafeGuaranteedRef { $0.copy(value) }
    }

    @inline(never)
    private mutating func overwrite(_ entry: KeyEntry, _ value: UnsafeRawBufferPointer, _ revision: UInt64) {
        let old = entry.content
        // The place of the old value is used again if it is large enough: there are no readers yet.
        if old.kind == EntryContent.encoded, old.encodedCapacity >= value.count, let place = old.encodedAddress {
            UnsafeMutableRawBufferPointer(start: place, count: value.count).copyMemory(from: value)
            replace(entry, by: old.reusingPlace(count: value.count, revision: revision))
        } else {
            replace(entry, by: EntryContent(encoded: copy(value), count: value.count, revision: revision))
        }
    }

    @inline(never)
    private mutating func unload(_ record: LoadedRecord) {
        if let entry = table.view.array.find(record.name, hash: record.hash) { replace(entry, by: .empty) }
    }

    /// Stores a value in the arena, like loading, but safe beside readers: the bytes of an old value are not
    /// overwritten.
    mutating func store(_ value: UnsafeRawBufferPointer, revision: UInt64, named name: UnsafeRawBufferPointer) {
        let hash = KeyHash.hash(name)
        let content =
            value.count <= ValueArena.maximumValueSize
            ? EntryContent(encoded: copy(value), count: value.count, revision: revision)
            : EntryContent(EncodedCell(Array(value), revision: revision))
        if let entry = table.view.array.find(name, hash: hash) {
            replace(entry, by: content)
        } else {
            insert(content, name, hash: hash)
        }
    }

    /// Makes room for as many names at once, so that loading them does not double the table again and again.
    mutating func reserve(_ expectedCount: Int) {
        if expectedCount * 3 > table.view.array.count * 2 { resize(for: expectedCount) }
    }
}
