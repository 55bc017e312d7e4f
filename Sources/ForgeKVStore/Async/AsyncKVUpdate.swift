/// Changes that a subscription reports at once (``AsyncKVChanges/Iterator/nextUpdate()``).
public struct AsyncKVUpdate: Hashable, Sendable {
    /// The changes, in order, of complete batches if ``revision`` is not nil; empty for a notice that nothing has
    /// changed.
    public var changes: [AsyncKVChange]

    /// The revision up to which every change has been reported; nil if the update does not tell.
    public var revision: UInt64?

    /// Creates an update.
    public init(changes: [AsyncKVChange], revision: UInt64? = nil) {
        self.changes = changes
        self.revision = revision
    }
}
