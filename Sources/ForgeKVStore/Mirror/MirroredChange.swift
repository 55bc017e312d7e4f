/// A change of a mirrored value, with the revision of the remote store; nil removes it.
struct MirroredChange: Sendable {
    var name: KeyName
    var entry: KVEntry?
}

/// Names and values, with their revisions in the remote store.
typealias MirroredList = [(name: String, entry: KVEntry)]

extension InMemoryKVStore {
    /// Whether there is no value.
    var isEmpty: Bool { count == 0 }

    /// Stores a list in an empty store, in one write. Short values go to the table's arena, which takes less memory
    /// than an object for each.
    func load(_ list: MirroredList) {
        change { writer in
            // Gives up the memory of values that were removed.
            writer.table.removeAll()
            writer.table.reserve(list.count)
            for (var name, entry) in list {
                name.withUTF8 { name in
                    entry.bytes.withUnsafeBytes { bytes in
                        writer.table.store(bytes, revision: entry.revision, named: UnsafeRawBufferPointer(name))
                    }
                }
            }
        }
        report(list.lazy.map { KeyName($0.name) })
    }

    /// Applies changes in one write, and reports to the observers the names whose bytes they change.
    func apply(_ changes: [MirroredChange], reporting names: [KeyName]) {
        change { writer in
            for change in changes {
                if let entry = change.entry {
                    writer.table.store(EncodedCell(entry.bytes, revision: entry.revision), change.name)
                } else {
                    writer.table.remove(change.name)
                }
            }
        }
        report(names)
    }

    /// The revision of the value of a name; nil if it is absent.
    func revision(of name: KeyName) -> UInt64? { cell(of: name)?.revision }

    /// The changes that lead to the content of a list, and the names whose bytes they change.
    func difference(to list: MirroredList) -> (changes: [MirroredChange], names: [KeyName]) {
        var changes: [MirroredChange] = []
        var names: [KeyName] = []
        var listed = Set<KeyName>(minimumCapacity: list.count)
        for (text, entry) in list {
            let name = KeyName(text)
            listed.insert(name)
            let current = cell(of: name)
            let hasEqualBytes = current.map { $0.encodedSize == entry.bytes.count && $0.bytes == entry.bytes } ?? false
            guard !hasEqualBytes || current?.revision != entry.revision else { continue }
            changes.append(MirroredChange(name: name, entry: entry))
            if !hasEqualBytes { names.append(name) }
        }
        for name in presentNames where !listed.contains(name) {
            changes.append(MirroredChange(name: name, entry: nil))
            names.append(name)
        }
        return (changes, names)
    }
}
