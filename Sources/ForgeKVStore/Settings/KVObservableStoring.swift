/// A key-value store that reports changes, whoever makes them.
///
/// ``FileKVStore``, ``InMemoryKVStore`` and ``UserDefaultsKVStore`` do, and wrappers of them.
public protocol KVObservableStoring: KVStoring {
    /// Observes changes made by this process and, in a shared store, by others.
    ///
    /// - Parameter handler: Called with the names whose values may have changed, or nil if any may have. Calls come one
    ///   at a time, in another thread, after the change has become visible to reads, and with no lock held; several
    ///   changes may be reported together, but after the last of them a call always follows.
    /// - Returns: The observation, which ends when it is released.
    func observeChanges(_ handler: @escaping @Sendable (_ names: [String]?) -> Void) -> KVObservation
}
