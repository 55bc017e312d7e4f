import Foundation

/// A key-value store that moves, value by value, from an old store into a new one while it is in use.
///
/// Reads find the value of the new store and, where it has none, that of the old one. Writes go to the new store. A
/// value is moved when it is first read (unless that is switched off) and by ``migrateAll()``; what cannot be moved
/// stays readable where it is.
///
/// A value is copied, read back and compared before anything else is done. ``migrateAll()`` leaves the old store as it
/// is, so that it can be gone back to, and ``removeMigrated()`` empties it of what the new store has. All of it may be
/// interrupted at any moment, by a crash as well, and goes on with the next call or the next read.
///
/// A change, except a raw `set`, first copies the values that it concerns into the new store: `set` copies the
/// value that it replaces, so that the new store can set it aside, and a batch the values that it replaces, removes or
/// requires. Removals, alone or in a batch, then make these copies durable and remove the values from the old store.
/// After that, the change is made in the new store. So no removed value comes back from the old store, and no value is
/// lost if the change fails. ``removeAll()`` empties the old store first; if it fails after that, values that only the
/// old store had are lost.
///
/// Values are copied without the expirations of an ``ExpiringKVStore``. To keep them, migrate between the base stores,
/// and put the `ExpiringKVStore` over this store.
///
/// No other code may write to either store meanwhile. Writes and moves through this object are done one after another.
public final class MigratingKVStore<Old: KVRawStoring, New: KVRawStoring>: KVRawStoring {
    private let old: Old
    private let new: New
    private let copiesOnRead: Bool
    private let isIncluded: (@Sendable (String) -> Bool)?

    /// Held during every write and move, so that no removal comes between the reading of an old value and its copy.
    /// Recursive, because the stores call back: encoding a value and reporting an issue run code of the app, which may
    /// use this store.
    private let writing = NSRecursiveLock()

    /// A store that is `new` with what it does not have yet taken from `old`.
    ///
    /// - Parameters:
    ///   - old: The store that is given up.
    ///   - new: The store that takes its place.
    ///   - copiesOnRead: Whether a value that is found in the old store is moved then.
    ///   - isIncluded: Which names of the old store ``keys()``, ``migrateAll()``, ``removeMigrated()`` and ``removeAll()``
    ///     deal with, by default all; others stay in the old store. The user defaults of an app, for example, also have names of the
    ///     system.
    public init(
        from old: Old, to new: New, copiesOnRead: Bool = true,
        names isIncluded: (@Sendable (_ name: String) -> Bool)? = nil
    ) {
        self.old = old
        self.new = new
        self.copiesOnRead = copiesOnRead
        self.isIncluded = isIncluded
    }

    /// Copies every value that only the old store has; the old store is not changed.
    ///
    /// - Returns: How many values were copied, how many there were already, and which could not be copied, and why.
    /// - Throws: ``KVStoreError`` if the keys of a store cannot be listed.
    @discardableResult
    public func migrateAll() throws -> KVTransferReport {
        try writing.withLock { try copyAll() }
    }

    /// Copies every value that only the old store has, and removes from the old store what the new one has.
    ///
    /// What could not be copied stays in the old store. If the new store can be made durable, it is before anything is
    /// removed.
    ///
    /// - Throws: ``KVStoreError``: no value is lost, and the call can be made again.
    @discardableResult
    public func removeMigrated() throws -> KVTransferReport {
        try writing.withLock {
            let report = try copyAll()
            try secure()
            let failed = Set(report.failures.map { KeyName($0.name) })
            for name in try oldNames() where !failed.contains(KeyName(name)) { try old.removeValue(named: name) }
            return report
        }
    }

    private func copyAll() throws -> KVTransferReport {
        let source = KVImportSource.store(old)
        return try KVTransfer(from: isIncluded.map(source.filter) ?? source, to: new, existing: .keep).run()
    }

    private func oldNames() throws -> [String] { try old.keys().filter(isIncluded ?? { _ in true }) }

    /// Makes durable what was copied, before the original is removed.
    private func secure() throws { try new.transactional?.synchronize() }

    /// Copies the value of a name if only the old store has one; the lock is held.
    private func copy(_ name: String) throws {
        guard try new.rawValue(named: name) == nil, let bytes = try old.rawValue(named: name) else { return }
        try KVTransfer.copy(bytes, named: name, to: new)
    }

    /// Moves the values of names into the new store, so that the old one does not matter to them any more.
    private func move(_ names: some Sequence<String>) throws {
        let found = try names.filter { try old.rawValue(named: $0) != nil }
        guard !found.isEmpty else { return }
        for name in found { try copy(name) }
        try secure()
        for name in found { try old.removeValue(named: name) }
    }

    /// Moves a value that was found in the old store; if that fails it is found there again the next time.
    private func didRead(_ name: String) {
        guard copiesOnRead else { return }
        do {
            try writing.withLock { try copy(name) }
        } catch {
            // The read has succeeded. `migrateAll` reports why a value cannot be copied.
        }
    }
}

// MARK: Reading

extension MigratingKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try read(key)
        } catch {
            // `get` reports the value to the handler of its store.
            return new.contains(key) ? new.get(key) : old.get(key)
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        if let value = try new.read(key) { return value }
        if let value = try old.read(key) {
            didRead(key.name)
            return value
        }
        // It may have been moved between the two looks.
        return try new.read(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool { new.contains(key) || old.contains(key) || new.contains(key) }

    public func keys() throws -> [String] {
        // The old store first: what is moved meanwhile is found twice rather than never.
        Array(Set(try (oldNames() + new.keys()).map(KeyName.init))).map(\.string)
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        if let bytes = try new.rawValue(named: name) { return bytes }
        if let bytes = try old.rawValue(named: name) {
            didRead(name)
            return bytes
        }
        return try new.rawValue(named: name)
    }
}

// MARK: Writing

extension MigratingKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws {
        try writing.withLock {
            // So that the new store sets the old value aside if it cannot be read as this type.
            try copy(key.name)
            try new.set(key, value: value)
        }
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try writing.withLock {
            try move([key.name])
            try new.remove(key)
        }
    }

    public func removeAll() throws {
        try writing.withLock {
            if isIncluded == nil {
                try old.removeAll()
            } else {
                for name in try oldNames() { try old.removeValue(named: name) }
            }
            try new.removeAll()
        }
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try writing.withLock { try new.setRawValue(bytes, named: name) }
    }

    public func removeValue(named name: String) throws {
        try writing.withLock {
            try move([name])
            try new.removeValue(named: name)
        }
    }
}

// MARK: Transactions

extension MigratingKVStore: KVTransactionalStoring where New: KVTransactionalStoring {
    /// The entry of the new store, into which the value is moved first.
    public func entry(named name: String) throws -> KVEntry? {
        if let entry = try new.entry(named: name) { return entry }
        try writing.withLock { try copy(name) }
        return try new.entry(named: name)
    }

    /// The new store at one moment, everything having been moved into it first.
    ///
    /// - Throws: ``KVStoreError``, also if a value cannot be moved.
    public func snapshot() throws -> KVSnapshot {
        try writing.withLock {
            if let failure = try copyAll().failures.first { throw failure.error }
            return try new.snapshot()
        }
    }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        KVObservation(new.observeRemoteChanges(handler), old.transactional?.observeRemoteChanges(handler))
    }

    public func commit(_ batch: KVBatch) throws {
        try writing.withLock {
            for requirement in batch.requirements { try copy(requirement.name) }
            var removed: [String] = []
            for change in batch.changes {
                switch change {
                case .set(let name, _): try copy(name)
                case .remove(let name): removed.append(name)
                }
            }
            try move(removed)
            try new.commit(batch)
        }
    }

    public func synchronize() throws { try new.synchronize() }
}

extension MigratingKVStore: KVObservableStoring where Old: KVObservableStoring, New: KVObservableStoring {
    /// Observes both stores.
    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        // Calls come one at a time: those of both stores are collected.
        let changes = ChangeObservers()
        let own = changes.add(handler)
        let parts = [new, old].map { (store: any KVObservableStoring) in
            store.observeChanges { names in changes.notify(names?.map(KeyName.init)) }
        }
        return KVObservation { withExtendedLifetime((own, parts)) {} }
    }
}

extension MigratingKVStore: KVIssueReporting where New: KVIssueReporting {
    public func report(_ issue: KVStoreIssue) { new.report(issue) }
}
