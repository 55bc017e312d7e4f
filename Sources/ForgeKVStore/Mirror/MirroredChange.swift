/// A change of a mirrored value, with the revision of the remote store; nil removes it.
struct MirroredChange: Sendable {
    var name: KeyName
    var entry: KVEntry?
}

extension InMemoryKVStore {
    /// The revision of the value of a name; nil if it is absent.
    func revision(of name: KeyName) -> UInt64? { cell(of: name)?.revision }

    /// The changes that lead to the content of a list, and the names whose bytes they change.
    func difference(to list: [(name: String, entry: KVEntry)]) -> (changes: [MirroredChange], names: [KeyName]) {
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
