extension FileKVStore {
    /// The processes that may have a store open at the same time.
    public enum Sharing: Hashable, Sendable, CaseIterable {
        /// A single process. It holds the lock of the store from opening to closing.
        case exclusive

        /// Every process that opens it with this option, up to 252. The lock of the store is held only during calls
        /// that write, never between calls, so a system that kills suspended processes holding a lock has no reason to
        /// do so.
        case shared
    }
}
