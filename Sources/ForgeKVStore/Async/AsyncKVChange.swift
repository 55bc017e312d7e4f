/// An element of ``AsyncKVChanges``.
public enum AsyncKVChange: Hashable, Sendable {
    /// A name has changed; its entry is nil if it became absent. The revision, if the store replays changes, is the one
    /// from which a later sequence continues after this change. Inside a batch, it repeats the changes of the batch.
    case changed(name: String, entry: KVEntry?, revision: UInt64?)

    /// Changes may have been missed: list the names again. Every later change is reported.
    case resync
}
