import ForgeFileSystem
import Foundation
import Synchronization

/// A key-value store that moves its values from an old store to a new one while in use.
///
/// Reads return the value of the new store or, if it has none, that of the old one. Writes go to the new store. A value
/// is moved when it is first read (unless that is disabled) and by ``migrateAll()``; values that cannot be moved remain
/// readable in the old store.
///
/// A value is copied, read back and compared before anything else is done. ``migrateAll()`` leaves the old store
/// unchanged, so that the app can return to it, and ``removeMigrated()`` removes migrated values from it. A migration
/// may be interrupted at any moment, including by a crash, and continues with the next call or read.
///
/// A change, except a raw `set`, first copies the affected values into the new store: `set` copies the value that it
/// replaces, so that the new store can set it aside, and a batch those that it replaces, removes or requires. Removals,
/// alone or in a batch, then make these copies durable and remove the values from the old store, durably. After that,
/// the change is made in the new store. So no removed value reappears from the old store, not even after a power cut,
/// and no value is lost if the change fails. A removal of a value that the old store has therefore waits for both
/// devices, once; the first removal through an object waits for that of the old store in any case, since a process that
/// was killed may have removed values there. A store that is no ``KVTransactionalStoring``, such as user defaults, has
/// no call that makes it durable: a power cut may bring back what was removed from it. ``removeAll()`` empties the old
/// store first; if it fails after that, values that only the old store had are lost.
///
/// An error that is thrown before the change is made in the new store names the call of this store, and is never
/// `.durabilityUnknown`: a flush that fails then is `.unavailable(.inputOutput)`.
///
/// Values are copied as they are. User defaults read a number as `Bool`, and a Boolean as a number; the new store does
/// not, so that such a value is readable only until ``removeMigrated()`` removes it from the old store: `set` it first,
/// with its type.
///
/// Values are copied without the expirations of an ``ExpiringKVStore``. To keep them, migrate between the base stores,
/// and wrap this store in the `ExpiringKVStore`. An `ExpiringKVStore` as the new store brings old values back: a value
/// whose lifetime has ended there is absent, so that of the old store is read, and copied without an end.
///
/// No other code may write to either store meanwhile. Moves through this object are serialised. The stores may not
/// overlap: the names of a new store that is a namespace of the old one have to be left out by `names`. Otherwise
/// ``migrateAll()`` and ``removeMigrated()`` throw `.refused`, and remove nothing.
public final class MigratingKVStore<Old: KVRawStoring, New: KVRawStoring>: KVRawStoring {
    private let old: Old
    private let new: New
    private let copiesOnRead: Bool
    private let isIncluded: (@Sendable (String) -> Bool)?

    /// Held while values are copied and moved, so that no removal occurs between reading an old value and copying it.
    ///
    /// It is not held while a typed value or a batch is written, which runs code of the app: the names of that write
    /// were copied or moved before, so no later copy replaces what it stores. Recursive, because a copy may report an
    /// issue to the app.
    private let writing = NSRecursiveLock()

    /// Whether the device of the old store has its removals. Changed while `writing` is held.
    private let removals = Atomic(Removals.unknown)

    private enum Removals: UInt8, AtomicRepresentable {
        /// This object has removed nothing; a process that was killed may have.
        case unknown

        case unflushed, durable
    }

    /// Creates a store that takes values missing from `new` from `old`.
    ///
    /// - Parameters:
    ///   - old: The store to migrate from.
    ///   - new: The store to migrate to.
    ///   - copiesOnRead: Whether to move a value when it is read from the old store.
    ///   - isIncluded: Selects the names of the old store for ``keys()``, ``migrateAll()``, ``removeMigrated()`` and
    ///     ``removeAll()``, by default all; others stay in the old store. An app's user defaults, for example, also
    ///     contain names of the system. It is called before values are moved, without a lock held.
    public init(
        from old: Old, to new: New, copiesOnRead: Bool = true,
        names isIncluded: (@Sendable (_ name: String) -> Bool)? = nil
    ) {
        self.old = old
        self.new = new
        self.copiesOnRead = copiesOnRead
        self.isIncluded = isIncluded
    }

    /// Copies every value that only the old store has; the old store is unchanged.
    ///
    /// - Returns: The numbers of values copied and already present, and the values that could not be copied, with
    ///   reasons.
    /// - Throws: ``KVStoreError`` if the keys of a store cannot be listed; `.refused` if what was copied has appeared in
    ///   the old store too.
    @discardableResult
    public func migrateAll() throws -> KVTransferReport {
        let names = try oldNames(for: .migrate)
        let report = try holdingStores(.migrate) { try copyAll(names) }
        try requireDistinctStores(report, names, for: .migrate)
        return report
    }

    /// Copies every value that only the old store has, and removes values from the old store that the new one has.
    ///
    /// Values that could not be copied stay in the old store. If the new store supports durability, it is made durable
    /// before the removal, and the old store after it.
    ///
    /// - Throws: ``KVStoreError``: no value is lost, and the call can be repeated; `.refused` if both stores are the same
    ///   or overlap.
    @discardableResult
    public func removeMigrated() throws -> KVTransferReport {
        let names = try oldNames(for: .migrate)
        let report = try holdingStores(.migrate) { try copyAll(names) }
        try requireDistinctStores(report, names, for: .migrate)
        try holdingStores(.migrate) {
            try secure()
            let copied = names.subtracting(report.failures.map { KeyName($0.name) })
            let removed = try old.keys().filter { copied.contains(KeyName($0)) }
            guard let first = removed.first else { return try flushEarlierRemovals() }
            try removeFromOld {
                try removeFirst(first)
                for name in removed.dropFirst() { try old.removeValue(named: name) }
            }
        }
        return report
    }

    /// Copies the values of names that the new store does not have; the lock is held.
    private func copyAll(_ names: Set<KeyName>) throws -> KVTransferReport {
        let source = KVImportSource.store(old).filter { names.contains(KeyName($0)) }
        return try KVTransfer(from: source, to: new, existing: .keep).run()
    }

    /// Throws if each value that was copied has appeared in the old store too. Systems add few names to user defaults.
    private func requireDistinctStores(
        _ report: KVTransferReport, _ names: Set<KeyName>, for call: KVStoreError.Operation
    ) throws {
        guard report.copiedCount > 0 else { return }
        let added = try oldNames(for: call).subtracting(names)
        guard added.count < report.copiedCount else { throw Self.overlap.of(call) }
    }

    /// Removes a value from the old store; throws if it is that of the new one, which shows by its revision or, in a
    /// store without revisions, after the removal, when it is put back.
    private func removeFirst(_ name: String) throws {
        guard let bytes = try old.rawValue(named: name) else { return }
        if let new = new.transactional {
            let revision = try new.entry(named: name)?.revision
            try old.setRawValue(bytes, named: name)
            guard try new.entry(named: name)?.revision == revision else { throw Self.overlap }
        }
        try old.removeValue(named: name)
        guard try new.rawValue(named: name) == nil else { return }
        try old.setRawValue(bytes, named: name)
        throw Self.overlap
    }

    private static var overlap: KVStoreError {
        KVStoreError(.refused, .migrate, detail: "the old and the new store overlap")
    }

    /// The names of the old store that are included. That is decided by code of the app, so the lock may not be held.
    private func oldNames() throws -> [String] { try old.keys().filter(isIncluded ?? { _ in true }) }

    /// The same for a call that errors name.
    private func oldNames(for call: KVStoreError.Operation) throws -> Set<KeyName> {
        do {
            return Set(try oldNames().map(KeyName.init))
        } catch let error as KVStoreError {
            throw error.of(call)
        }
    }

    /// Makes copies durable before the originals are removed.
    private func secure() throws { try new.transactional?.synchronize() }

    /// Copies the value of a name if only the old store has one; the lock is held. A name that is too long has no value;
    /// the change that follows is refused.
    private func copy(_ name: String) throws {
        guard KeyName(name).isValid, try new.rawValue(named: name) == nil, let bytes = try old.rawValue(named: name)
        else { return }
        try KVTransfer.copy(bytes, named: name, to: new)
    }

    /// Moves the values of names into the new store.
    private func move(_ names: some Sequence<String>) throws {
        let found = try names.filter { try KeyName($0).isValid && old.rawValue(named: $0) != nil }
        guard !found.isEmpty else { return try flushEarlierRemovals() }
        for name in found { try copy(name) }
        try secure()
        try removeFromOld { for name in found { try old.removeValue(named: name) } }
    }

    /// Removes values from the old store, and makes that durable: the change that follows in the new store may become
    /// durable at any time, and the old values would be back after a power cut.
    private func removeFromOld(_ remove: () throws -> Void) throws {
        removals.store(.unflushed, ordering: .releasing)
        try remove()
        try flushRemovals()
    }

    private func flushRemovals() throws {
        try old.transactional?.synchronize()
        removals.store(.durable, ordering: .releasing)
    }

    /// Makes removals from the old store durable that may not be: those of a process that was killed, or of a call that
    /// failed.
    private func flushEarlierRemovals() throws {
        guard removals.load(ordering: .acquiring) != .durable else { return }
        do {
            try flushRemovals()
        } catch {
            // A store that can only be read, or failed before this object removed anything from it, prevents no change
            // of the new one.
            guard removals.load(ordering: .acquiring) == .unknown else { throw error }
        }
    }

    /// Calls both stores for one call of this store, which their errors name.
    private func holdingStores<Result>(
        _ call: KVStoreError.Operation, _ body: () throws -> Result
    ) throws -> Result {
        try writing.withLock {
            do {
                return try body()
            } catch let error as KVStoreError {
                throw error.of(call)
            }
        }
    }

    /// Prepares a change of the new store, for a call that errors name. They say that the change was not made: at most,
    /// values were moved, which no read shows.
    private func preparing(
        _ call: KVStoreError.Operation, _ name: String? = nil, _ body: () throws -> Void
    ) throws {
        try writing.withLock {
            do {
                try body()
            } catch let error as KVStoreError {
                var failure = error.of(call)
                failure.key = error.key ?? name
                if error.code == .durabilityUnknown { failure.code = .unavailable(.inputOutput) }
                throw failure
            }
        }
    }

    /// Moves a value that was read from the old store; a failure is ignored, because the next read tries again.
    private func didRead(_ name: String) {
        guard copiesOnRead else { return }
        do {
            try writing.withLock { try copy(name) }
        } catch {
            // The read has succeeded. `migrateAll` reports the reason.
        }
    }
}

// MARK: Durability

extension MigratingKVStore where New: KVTransactionalStoring {
    /// Waits until every earlier write is durable, removals from the old store included.
    public func synchronize() throws {
        if removals.load(ordering: .acquiring) != .durable {
            try writing.withLock { try flushEarlierRemovals() }
        }
        try new.synchronize()
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
        do {
            if let value = try new.read(key) { return value }
        } catch let error as KVStoreError where error.code == .undecodable {
            // The old store may read more types, such as user defaults a number as `Bool`.
            guard try new.rawValue(named: key.name) == old.rawValue(named: key.name), let value = try old.read(key)
            else { throw error }
            return value
        }
        if let value = try old.read(key) {
            didRead(key.name)
            return value
        }
        // It may have been moved between the two reads.
        return try new.read(key)
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool { new.contains(key) || old.contains(key) || new.contains(key) }

    public func keys() throws -> [String] {
        // The old store first, so that a value moved meanwhile is found twice rather than never.
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
        // So that the new store sets the old value aside if it cannot be decoded as this type.
        try preparing(.set, key.name) { try copy(key.name) }
        try new.set(key, value: value)
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try preparing(.remove, key.name) { try move([key.name]) }
        try new.remove(key)
    }

    public func removeAll() throws {
        let included = try oldNames(for: .removeAll)
        try holdingStores(.removeAll) {
            try preparing(.removeAll) {
                let names = try old.keys().filter { included.contains(KeyName($0)) }
                guard !names.isEmpty else { return try flushEarlierRemovals() }
                try removeFromOld {
                    guard isIncluded != nil else { return try old.removeAll() }
                    for name in names { try old.removeValue(named: name) }
                }
            }
            try new.removeAll()
        }
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try writing.withLock { try new.setRawValue(bytes, named: name) }
    }

    public func removeValue(named name: String) throws {
        try preparing(.remove, name) { try move([name]) }
        try new.removeValue(named: name)
    }
}

// MARK: Transactions

extension MigratingKVStore: KVStoreAbove {
    var storeBelow: New { new }
}

extension MigratingKVStore: KVTransactionalStoring where New: KVTransactionalStoring {
    /// The entry in the new store, after moving the value.
    public func entry(named name: String) throws -> KVEntry? {
        if let entry = try new.entry(named: name) { return entry }
        try holdingStores(.read) { try copy(name) }
        return try new.entry(named: name)
    }

    /// A snapshot of the new store, after moving all values.
    ///
    /// - Throws: ``KVStoreError``, also if a value cannot be moved.
    public func snapshot() throws -> KVSnapshot {
        let names = try oldNames(for: .snapshot)
        let (report, snapshot) = try holdingStores(.snapshot) { () throws -> (KVTransferReport, KVSnapshot) in
            let copied = try copyAll(names)
            if let failure = copied.failures.first { throw failure.error }
            return (copied, try new.snapshot())
        }
        try requireDistinctStores(report, names, for: .snapshot)
        return snapshot
    }

    public func commit(_ batch: KVBatch) throws {
        try batch.validateNames()
        try preparing(.batch) {
            for requirement in batch.requirements { try copy(requirement.name) }
            var removed: [String] = []
            for change in batch.changes {
                switch change {
                case .set(let name, _): try copy(name)
                case .remove(let name): removed.append(name)
                }
            }
            if !removed.isEmpty { try move(removed) }
        }
        try new.commit(batch)
    }
}

extension MigratingKVStore {
    /// Reports the changes of the new store, and those of the old one if it reports any. Of a prefix, those that may
    /// hide or show a value of the old store are ``KVChange/resync``.
    public func subscribe(to scope: KVScope) -> KVChanges? {
        new.subscribe(to: scope).map { .combining($0, over: old.subscribe(to: scope), in: scope) }
    }
}
