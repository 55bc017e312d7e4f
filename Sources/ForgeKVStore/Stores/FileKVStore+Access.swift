extension FileKVStore {
    /// The permitted use of a store.
    public enum Access: Hashable, Sendable, CaseIterable {
        /// Reading and writing. The store is created if it is missing, and locked.
        case readWrite

        /// Reading only. Opening creates, locks, repairs and removes nothing, so it works while another process writes,
        /// and on a read-only medium.
        ///
        /// The store shows the content of its log at opening; open it again to see later writes. Opening throws
        /// `.noStore` if there is none. Every write throws `.readOnly`. Damage is reported and left unchanged.
        case readOnly
    }
}
