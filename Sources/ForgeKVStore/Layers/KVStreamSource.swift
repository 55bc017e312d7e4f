/// A store as the streams of its keys read it: downcast to the protocols it conforms to.
struct KVStreamSource: Sendable {
    let store: any KVStoring
    let transactional: (any KVTransactionalStoring)?

    init(_ store: some KVStoring) {
        self.store = store.unerased
        transactional = store.transactional
    }

    /// Pushes the current value.
    func push<T>(_ key: KVKey<T>, isPresent: Bool, _ write: UInt64, to buffer: KVStreamBuffer<T>) {
        guard isPresent else { return buffer.push(KVChange(value: nil, revision: nil, write: write), .absent) }
        if let (value, entry) = versioned(key) {
            let content = entry.map { KVContent.bytes($0.bytes) } ?? .absent
            return buffer.push(KVChange(value: value, revision: entry?.revision, write: write), content)
        }
        let value = store.get(key)
        buffer.push(KVChange(value: value, revision: nil, write: write), content(of: key, value))
    }

    /// The value of a key with the entry that it was read from; nil if there are no entries, or none can be read.
    private func versioned<T>(_ key: KVKey<T>) -> (value: T?, entry: KVEntry?)? {
        guard let transactional else { return nil }
        do {
            var entry = try transactional.entry(named: key.name)
            // Retried, because another process may have written between the two reads.
            while true {
                let value = transactional.get(key)
                let later = try transactional.entry(named: key.name)
                if later?.revision == entry?.revision { return (value, entry) }
                entry = later
            }
        } catch {
            return nil
        }
    }

    /// The content to compare by if there is no entry.
    private func content<T>(of key: KVKey<T>, _ value: T?) -> KVContent {
        do {
            if let bytes = try (store as? any KVRawStoring)?.rawValue(named: key.name) { return .bytes(bytes) }
        } catch {
            // The value, if there is one, is encoded instead.
        }
        guard let value else { return .unknown }
        do {
            return .bytes(try ValueTable.encode(value, for: key))
        } catch {
            return .unknown
        }
    }
}
