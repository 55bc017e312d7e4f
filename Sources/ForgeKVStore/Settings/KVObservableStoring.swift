/// A key-value store that reports changes.
///
/// ``FileKVStore`` and ``InMemoryKVStore`` report every change, ``UserDefaultsKVStore`` those made by its own objects;
/// wrappers report the changes of their base store.
public protocol KVObservableStoring: KVStoring {
    /// Observes changes made by this process and, in a shared store, by others.
    ///
    /// - Parameter handler: Called with the names whose values may have changed, or nil if any may have. Calls come one
    ///   at a time, in another thread, after the change has become visible to reads, and with no lock held; several
    ///   changes may be reported together, and a call always follows the last of them.
    /// - Returns: The observation, which ends when it is released.
    func observeChanges(_ handler: @escaping @Sendable (_ names: [String]?) -> Void) -> KVObservation
}

extension KVStoring {
    /// The store that reports the changes of this one, if any: itself, or the store that it forwards reads to.
    var observable: (any KVObservableStoring)? {
        if let store = self as? any KVObservableStoring { return store }
        if let eraser = self as? AnyKVStore { return eraser.base.observable }
        return (self as? any KVReadForwarding)?.base.observable
    }
}
