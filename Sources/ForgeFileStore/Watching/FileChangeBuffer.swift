/// The changes that a consumer has not taken yet, in their order.
struct FileChangeBuffer {
    static let limit = 1024

    private var changes: [FileChange] = []
    /// The position of the next change to take.
    private var next = 0
    /// The keys of kept `changed` elements after the last kept `removed`.
    private var changed: Set<String> = []

    /// Adds a change, unless a kept one covers it; a full buffer becomes one `resync`.
    mutating func append(_ change: FileChange) {
        // The files will be listed after this change.
        if changes.last == .resync { return }
        switch change {
        case .changed(let key):
            guard changed.insert(key).inserted else { return }
        case .removed:
            guard changes.last != change else { return }
            changed = []
        case .resync:
            return removeAll(keeping: [.resync])
        }
        guard changes.count - next < Self.limit else { return removeAll(keeping: [.resync]) }
        changes.append(change)
    }

    mutating func popFirst() -> FileChange? {
        guard next < changes.count else { return nil }
        let change = changes[next]
        next += 1
        if case .changed(let key) = change { changed.remove(key) }
        if next == changes.count {
            removeAll()
        } else if next == Self.limit {
            changes.removeFirst(next)
            next = 0
        }
        return change
    }

    mutating func removeAll(keeping changes: [FileChange] = []) {
        self.changes = changes
        next = 0
        changed = []
    }
}
