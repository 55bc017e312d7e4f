extension FileKVStore {
    /// What a store may be used for.
    public enum Access: Hashable, Sendable, CaseIterable {
        /// Reading and writing. The store is created if it is missing, and locked.
        case readWrite

        /// Reading only. Opening creates, locks, repairs and removes nothing, so it works beside a process that writes
        /// and on a medium that is read-only.
        ///
        /// The store shows what its log held when it was opened; open it again to see later writes. Opening throws
        /// `.noStore` if there is none. Every write throws `.readOnly`. Damage is reported and left as it is.
        case readOnly
    }
}
