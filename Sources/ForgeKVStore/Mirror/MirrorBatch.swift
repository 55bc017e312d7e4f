/// The changes that a stream has delivered and a mirror does not show yet, because more of their batch may follow.
///
/// A connection that ends discards them: the next one repeats the batch.
struct MirrorBatch {
    private var update = AsyncKVUpdate(changes: [])

    /// The revision of the last batch of which there is a value.
    private var last: UInt64 = 0

    /// Whether all changes are of a store that does not report revisions, and so no batches.
    private var hasNoRevisions = true

    /// Adds what the stream has delivered.
    mutating func append(_ next: AsyncKVUpdate) {
        // A list contains the changes before it.
        if next.changes.first == .resync { self = MirrorBatch() }
        for case .changed(_, let entry, .some) in next.changes {
            hasNoRevisions = false
            last = max(last, entry?.revision ?? 0)
        }
        update.changes += next.changes
        update.revision = next.revision
    }

    /// Whether the last change is that of a batch.
    var isComplete: Bool { update.revision.map { $0 >= last } ?? hasNoRevisions }

    /// Takes the changes.
    mutating func take() -> AsyncKVUpdate {
        defer { self = MirrorBatch() }
        return update
    }
}
