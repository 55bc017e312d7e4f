extension FileKVStore {
    /// Which processes may have a store open at the same time.
    public enum Sharing: Hashable, Sendable, CaseIterable {
        /// One alone. It holds the lock of the store from opening to closing.
        case exclusive

        /// Every process that opens it with this option, up to 252 of them. The lock of the store is held during calls
        /// that write only, never between calls: a system that kills suspended processes which hold a lock has no cause
        /// to.
        case shared
    }
}
