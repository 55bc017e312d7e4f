import ForgeCoding
public import Foundation
import Synchronization

/// The stored form of a value.
private struct ExpiringValue: Codable, Sendable {
    var expiration: Date?
    var value: [UInt8]

    enum CodingKeys: String, CodingKey {
        case expiration = "e"
        case value = "v"
    }

    func isExpired(at time: Date) -> Bool { expiration.map { $0 <= time } ?? false }
}

/// Adds expiration to any key-value store.
///
/// A value exists until its expiration and is absent afterwards, for every call, as if removed. It takes up space until
/// it is overwritten, removed, or swept by ``removeExpired()``.
///
/// ```swift
/// let tokens = ExpiringKVStore(store)
/// try tokens.set(token, value: "…", expiresAfter: .seconds(3600))
/// ```
///
/// The time is the latest result of `now` so far: setting the clock back does not bring expired values back. After the
/// clock jumps ahead, values that would have expired by then stay expired for the lifetime of this object.
///
/// The base store keeps each value as a map: `v`, the encoded value as bytes, and `e`, its expiration, absent or nil if
/// it has none. Access such a store only through this type: values stored otherwise are undecodable here, and are kept.
/// `set` and batches store values without expiration, even over one that had it.
/// ``KVTransactionalStoring/update(_:default:durability:_:)``,
/// ``KVTransactionalStoring/compareAndSet(_:revision:value:)`` and a batch that sets a name whose present revision it
/// requires keep the expiration.
///
/// A copy to another store (``KVRawStoring/exportValues(to:existing:)``, ``KVRawStoring/importValues(from:existing:)``,
/// ``MigratingKVStore``) contains the unexpired values without their expirations. To keep the expirations, copy the
/// base store into the other base store. Do not use this type as the new store of a `MigratingKVStore`: after the
/// expiration of a value, the one that the old store still has is read, and copied without an expiration.
///
/// An expiration is not a write: no ``ReactiveKVStore`` reports it (<doc:Layering-stores>).
///
/// Over a base store without revisions, writes through this object are serialised. Every read decodes the value.
public final class ExpiringKVStore<Base: KVStoring>: KVStoring {
    private let base: Base
    private let clock: @Sendable () -> Date
    private let latest = Mutex(Date.distantPast)

    /// Held during every write, so that sweeping does not remove a value just set; nil if the base store has revisions,
    /// with which a sweep detects that. No value is decoded and no time is asked for meanwhile. Recursive, because the
    /// base store may run other code of the app that uses this store.
    private let writing: NSRecursiveLock?

    /// Adds expiration to `base`, with `now` as the clock.
    public init(_ base: Base, now: @escaping @Sendable () -> Date = { Date() }) {
        self.base = base
        clock = now
        writing = base.transactional == nil ? NSRecursiveLock() : nil
    }

    private func now() -> Date {
        let time = clock()
        return latest.withLock { latest in
            latest = max(latest, time)
            return latest
        }
    }

    private func exclusively<Result>(_ write: () throws -> Result) rethrows -> Result {
        guard let writing else { return try write() }
        return try writing.withLock(write)
    }

    /// The value of a name; nil if it is absent or has expired.
    private func find(_ name: String) throws -> ExpiringValue? {
        // Read before the clock, so that the time is not older than the value.
        let kept = try base.read(KVKey<ExpiringValue>(name))
        return kept?.isExpired(at: now()) == false ? kept : nil
    }

    private func kept(_ entry: KVEntry, _ name: String) throws -> ExpiringValue {
        do {
            return try ValueTable.decode(entry.bytes, as: KVKey<ExpiringValue>(name))
        } catch {
            throw KVStoreError(decoding: error, .read, key: name).of(store: self)
        }
    }
}

// MARK: Expiring

extension ExpiringKVStore {
    /// Stores a value that expires at an instant; see ``set(_:value:)``. If that has passed, the value is absent at
    /// once.
    public func set<T>(_ key: KVKey<T>, value: T, expiresAt expiration: Date) throws {
        try store(value, key, expiration)
    }

    /// Stores a value that expires after a duration; see ``set(_:value:)``.
    public func set<T>(_ key: KVKey<T>, value: T, expiresAfter duration: Duration) throws {
        // `components` traps for a duration of more seconds than `Int64` has.
        try store(value, key, now().addingTimeInterval(duration / .seconds(1)))
    }

    /// The expiration of a key's value; nil if it has none or the key is absent.
    ///
    /// - Throws: ``KVStoreError``, as ``read(_:)``.
    public func expiration<T>(of key: KVKey<T>) throws -> Date? {
        try find(key.name)?.expiration
    }
}

// MARK: Reading

extension ExpiringKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try read(key)
        } catch {
            _ = base.get(KVKey<ExpiringValue>(key.name))  // Reports the value to the base store's handler.
            return nil
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        guard let kept = try find(key.name) else { return nil }
        do {
            return try ValueTable.decode(kept.value, as: key)
        } catch {
            throw KVStoreError(decoding: error, .read, key: key.name).of(store: self)
        }
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        do {
            return try find(key.name) != nil
        } catch {
            return base.contains(key)  // An undecodable value exists, but its expiration is unknown.
        }
    }
}

// MARK: Writing

extension ExpiringKVStore {
    public func set<T>(_ key: KVKey<T>, value: T) throws { try store(value, key, nil) }

    private func store<T>(_ value: T, _ key: KVKey<T>, _ expiration: Date?) throws {
        let bytes: [UInt8]
        do {
            bytes = try ValueTable.encode(value, for: key)
        } catch {
            throw KVStoreError(.unencodable, .set, key: key.name, underlying: error).of(store: self)
        }
        let kept = ExpiringValue(expiration: expiration, value: bytes)
        let type = WrittenType(key)
        guard let writing else { return try base.set(stored(key.name, type), value: kept) }
        // Decoding a value runs code of the app, so the one that is to be replaced is looked at without the lock.
        var checked: (value: [UInt8], isReadable: Bool)?
        var attempts = UpdateAttempts(of: key.name, running: .decoding)
        while true {
            let time = now()
            let unchecked = try writing.withLock { () throws -> [UInt8]? in
                let old = unexpired(key.name, at: time)
                guard old == nil || old == checked?.value else { return old }
                let readable = checked?.isReadable == true ? checked?.value : nil
                let stored = stored(key.name) { $0.isExpired(at: time) || $0.value == readable }
                try base.set(stored, value: kept)
                return nil
            }
            guard let unchecked else { return }
            try attempts.didFail()
            checked = (unchecked, type.canRead(unchecked, key.identity))
        }
    }

    /// The value of a name; nil if it is absent, has expired, or was not stored by this type.
    private func unexpired(_ name: String, at time: Date) -> [UInt8]? {
        do {
            guard let kept = try base.read(KVKey<ExpiringValue>(name)), !kept.isExpired(at: time) else { return nil }
            return kept.value
        } catch {
            return nil  // A write reports a store that cannot be read.
        }
    }

    /// The key of a value in the base store. A value of a type that cannot be read as `type` is set aside there before
    /// it is overwritten.
    private func stored(_ name: String, _ type: WrittenType) -> KVKey<ExpiringValue> {
        let identity = KeyName(name)
        return stored(name) { [self] kept in
            kept.isExpired(at: now()) || type.canRead(kept.value, identity)
        }
    }

    /// The key of a value in the base store. A value for which `mayReplace` is false is set aside there before it is
    /// overwritten, and so is one that this type has not written.
    private func stored(
        _ name: String, replacing mayReplace: @escaping @Sendable (ExpiringValue) -> Bool
    ) -> KVKey<ExpiringValue> {
        let key = KVKey<ExpiringValue>(name)
        let schema = KVSchema<ExpiringValue> { bytes in
            do {
                return mayReplace(try ValueTable.decode(bytes, as: key))
            } catch {
                return false
            }
        }
        return KVKey(key.identity, schema)
    }

    public func remove<T>(_ key: KVKey<T>) throws { try exclusively { try base.remove(key) } }

    public func removeAll() throws { try exclusively { try base.removeAll() } }
}

// MARK: Raw values

extension ExpiringKVStore: KVRawStoring where Base: KVRawStoring {
    /// The names of all unexpired values, and of values that this type did not store.
    ///
    /// - Complexity: O(*n*): decodes each value.
    public func keys() throws -> [String] {
        try base.keys().filter { try !isExpired($0, at: nil) }
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        try find(name)?.value
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try exclusively { try base.set(KVKey(name), value: ExpiringValue(value: bytes)) }
    }

    public func removeValue(named name: String) throws {
        try exclusively { try base.removeValue(named: name) }
    }

    /// Removes every expired value from the base store.
    ///
    /// If that store keeps revisions, a value that was rewritten concurrently is kept.
    ///
    /// - Returns: The number of values removed.
    /// - Throws: ``KVStoreError``. Some values may have been removed.
    @discardableResult
    public func removeExpired() throws -> Int {
        let time = now()
        return try exclusively {
            let transactional = base.transactional
            var count = 0
            for name in try base.keys() where try isExpired(name, at: time) {
                if let transactional {
                    guard try sweep(name, transactional) else { continue }
                } else {
                    try base.removeValue(named: name)
                }
                count += 1
            }
            return count
        }
    }

    /// Whether the value of a name has expired at a time, or with nil by now.
    private func isExpired(_ name: String, at time: Date?) throws -> Bool {
        do {
            return try base.read(KVKey<ExpiringValue>(name))?.isExpired(at: time ?? now()) ?? false
        } catch let error as KVStoreError where error.isForeign {
            return false
        }
    }

    /// Removes a value unless it was rewritten since it was found to have expired.
    private func sweep(_ name: String, _ base: any KVTransactionalStoring) throws -> Bool {
        do {
            guard let entry = try base.entry(named: name), try kept(entry, name).isExpired(at: now()) else {
                return false
            }
            try base.batch { batch in
                batch.require(name, revision: entry.revision)
                batch.append(.remove(name: name))
            }
            return true
        } catch let error as KVStoreError where error.code == .conflict || error.isForeign {
            return false
        }
    }
}

extension KVStoreError {
    /// Whether the value was not written by an ``ExpiringKVStore`` of this version of its format.
    fileprivate var isForeign: Bool { code == .undecodable || code.newerVersion != nil }
}

// MARK: Transactions

extension ExpiringKVStore: KVTransactionalStoring where Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? {
        guard let entry = try base.entry(named: name) else { return nil }
        let kept = try kept(entry, name)
        return kept.isExpired(at: now()) ? nil : KVEntry(bytes: kept.value, revision: entry.revision)
    }

    /// A snapshot of the unexpired values; values that this type did not store are left out.
    public func snapshot() throws -> KVSnapshot {
        let snapshot = try base.snapshot()
        let time = now()
        var entries: [(name: String, entry: KVEntry)] = []
        for (name, entry) in snapshot {
            do {
                let kept = try kept(entry, name)
                guard !kept.isExpired(at: time) else { continue }
                entries.append((name, KVEntry(bytes: kept.value, revision: entry.revision)))
            } catch let error as KVStoreError where error.isForeign {
                continue
            }
        }
        return KVSnapshot(entries, above: snapshot)
    }

    public func commit(_ batch: KVBatch) throws { try commit(batch) { $0 } }

    /// Commits a batch whose values expire at an instant that is computed from their expiration so far.
    private func commit(_ batch: KVBatch, expiration: (_ old: Date?) -> Date?) throws {
        try batch.validateNames()
        try exclusively {
            while true {
                do {
                    return try base.commit(try inner(batch, expiration))
                } catch let error as KVStoreError where error.code == .conflict && !(error.underlying is WritingCode) {
                    // If all requirements still hold, the conflict comes from a concurrent sweep of an expired value.
                    for requirement in batch.requirements {
                        guard try entry(named: requirement.name)?.revision == requirement.revision else { throw error }
                    }
                }
            }
        }
    }

    /// The batch to commit to the base store.
    private func inner(_ batch: KVBatch, _ expiration: (_ old: Date?) -> Date?) throws -> KVBatch {
        var ends: [KeyName: Date] = [:]
        var inner = KVBatch()
        for requirement in batch.requirements {
            var revision = requirement.revision
            if let entry = try base.entry(named: requirement.name) {
                let kept = try kept(entry, requirement.name)
                if kept.isExpired(at: now()) {
                    guard revision == nil else { throw KVStoreError(.conflict, .batch, key: requirement.name) }
                    revision = entry.revision
                } else if revision == entry.revision {
                    ends[KeyName(requirement.name)] = kept.expiration
                }
            }
            inner.require(requirement.name, revision: revision)
        }
        for (change, type) in zip(batch.changes, batch.types) {
            switch change {
            case .set(let name, let bytes):
                let kept = ExpiringValue(expiration: expiration(ends[KeyName(name)]), value: bytes)
                let encoded = try ValueTable.encode(kept, for: KVKey(name))
                inner.append(.set(name: name, bytes: encoded), type.map { WrittenType(stored(name, $0)) })
            case .remove: inner.append(change)
            }
        }
        return inner
    }

    public func synchronize() throws { try base.synchronize() }
}

extension ExpiringKVStore: KVStoreAbove {
    var storeBelow: Base { base }
}

extension ExpiringKVStore: KVExpiringBatches where Base: KVTransactionalStoring {
    func commit(_ batch: KVBatch, expiresAfter duration: Duration?) throws {
        let end = duration.map { now().addingTimeInterval($0 / .seconds(1)) }
        try commit(batch) { _ in end }
    }
}

extension ExpiringKVStore {
    /// Reports writes; an expiration is not a write. A value that this type did not store is reported as absent.
    public func subscribe(to scope: KVScope) -> KVChanges? {
        base.subscribe(to: scope)?.mapChanges { [self] name, entry in (name, entry.flatMap { unexpired($0, name) }) }
    }

    /// The entry of an unexpired value; nil for one that has expired, or that this type did not store.
    private func unexpired(_ entry: KVEntry, _ name: String) -> KVEntry? {
        do {
            let kept = try kept(entry, name)
            return kept.isExpired(at: now()) ? nil : KVEntry(bytes: kept.value, revision: entry.revision)
        } catch {
            return nil
        }
    }
}
