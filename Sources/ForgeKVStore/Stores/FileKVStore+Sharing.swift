extension FileKVStore {
    /// The processes that may have a store open at the same time.
    public enum Sharing: Hashable, Sendable, CaseIterable {
        /// A single process. It holds the lock of the store from opening to closing.
        case exclusive

        /// Every process that opens it with this option, up to 252. The exclusive lock of the store is held only while
        /// a call writes, compacts, opens the store, or reads after the log was replaced. Between calls a process holds
        /// a shared lock on the directory, which keeps out processes that open the store exclusively.
        case shared
    }
}
