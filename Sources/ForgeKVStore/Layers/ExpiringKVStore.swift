import ForgeCoding
public import Foundation
import Synchronization

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
/// `set` and batches store values without expiration, even over one that had it; ``KVStoring/update(_:default:_:)`` and
/// ``KVStoring/compareAndSet(_:revision:value:)`` keep the expiration.
///
/// A copy to another store (``KVStoring/exportValues(to:existing:)``, ``KVStoring/importValues(from:existing:)``,
/// ``MigratingKVStore``) contains the unexpired values without their expirations. To keep the expirations, copy the
/// base store into the other base store.
///
/// An expiration is not a write: no ``ReactiveKVStore`` reports it (<doc:Layering-stores>).
///
/// Writes through this object are serialised. Every read decodes the value.
public final class ExpiringKVStore: KVStoring {
    private let base: any KVStoring
    private let clock: @Sendable () -> Date
    private let latest = Mutex(Date.distantPast)

    /// Held during every write, so that sweeping does not remove a value just set. Recursive, because the
    /// base store may report an issue to app code that uses this store.
    private let writing = NSRecursiveLock()

    /// Adds expiration to `base`, with `now` as the clock.
    public init(_ base: any KVStoring, now: @escaping @Sendable () -> Date = { Date() }) {
        self.base = base
        clock = now
    }

    /// The stored form of a value.
    private struct Kept: Codable, Sendable {
        var expiration: Date?
        var value: [UInt8]

        enum CodingKeys: String, CodingKey {
            case expiration = "e"
            case value = "v"
        }
    }

    /// The result of looking up a name.
    private enum Found {
        case nothing, expired
        case value(Kept)
    }

    private func now() -> Date {
        let time = clock()
        return latest.withLock { latest in
            latest = max(latest, time)
            return latest
        }
    }

    private func found(_ kept: Kept?, at time: Date) -> Found {
        guard let kept else { return .nothing }
        if let expiration = kept.expiration, expiration <= time { return .expired }
        return .value(kept)
    }

    private func find(_ name: String) throws -> Found {
        // Read before the clock, so that the time is not older than the value.
        let kept = try base.read(KVKey<Kept>(name))
        return found(kept, at: now())
    }

    private func kept(_ entry: KVEntry, _ name: String) throws -> Kept {
        do {
            return try ValueTable.decode(entry.bytes, as: KVKey<Kept>(name))
        } catch {
            throw KVStoreError(decoding: error, .read, key: name)
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
        guard case .value(let kept) = try find(key.name) else { return nil }
        return kept.expiration
    }

    /// Removes every expired value from the base store.
    ///
    /// If that store keeps revisions, a value that was rewritten concurrently is kept.
    ///
    /// - Returns: The number of values removed.
    /// - Throws: ``KVStoreError``, `.unsupported` if the base store does not list its keys. Some values may have been
    ///   removed.
    @discardableResult
    public func removeExpired() throws -> Int {
        try writing.withLock {
            var count = 0
            for name in try base.keys() where try isExpired(name) {
                if try sweep(name) { count += 1 }
            }
            return count
        }
    }

    private func isExpired(_ name: String) throws -> Bool {
        do {
            guard case .expired = try find(name) else { return false }
            return true
        } catch let error as KVStoreError where error.code == .undecodable {
            return false  // Not written by this type.
        }
    }

    private func sweep(_ name: String) throws -> Bool {
        do {
            guard let entry = try base.entry(named: name), case .expired = found(try kept(entry, name), at: now())
            else {
                return false
            }
            var batch = KVBatch()
            batch.require(name, revision: entry.revision)
            batch.append(.remove(name: name))
            try base.commit(batch)
        } catch let error as KVStoreError where error.code == .unsupported {
            try base.remove(KVKey<Kept>(name))
        } catch let error as KVStoreError where error.code == .conflict {
            return false
        }
        return true
    }
}

// MARK: Reading

extension ExpiringKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try read(key)
        } catch {
            _ = base.get(KVKey<Kept>(key.name))  // Reports the value to the base store's handler.
            return nil
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        guard case .value(let kept) = try find(key.name) else { return nil }
        do {
            return try ValueTable.decode(kept.value, as: key)
        } catch {
            throw KVStoreError(decoding: error, .read, key: key.name)
        }
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        do {
            guard case .value = try find(key.name) else { return false }
            return true
        } catch {
            return base.contains(key)  // An undecodable value exists, but its expiration is unknown.
        }
    }

    /// The names of all unexpired values, and of values that this type did not store.
    ///
    /// - Complexity: O(*n*): decodes each value.
    public func keys() throws -> [String] {
        try base.keys().filter { try !isExpired($0) }
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        guard case .value(let kept) = try find(name) else { return nil }
        return kept.value
    }

    public func entry(named name: String) throws -> KVEntry? {
        guard let entry = try base.entry(named: name),
            case .value(let kept) = found(try kept(entry, name), at: now())
        else { return nil }
        return KVEntry(bytes: kept.value, revision: entry.revision)
    }

    /// A snapshot of the unexpired values; values that this type did not store are left out.
    public func snapshot() throws -> KVSnapshot {
        let snapshot = try base.snapshot()
        let time = now()
        var entries: [(name: String, entry: KVEntry)] = []
        for (name, entry) in snapshot {
            do {
                guard case .value(let kept) = found(try kept(entry, name), at: time) else { continue }
                entries.append((name, KVEntry(bytes: kept.value, revision: entry.revision)))
            } catch let error as KVStoreError where error.code == .undecodable {
                continue
            }
        }
        return KVSnapshot(entries)
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
            throw KVStoreError(.unencodable, .set, key: key.name, underlying: error)
        }
        let kept = Kept(expiration: expiration, value: bytes)
        var batch = KVBatch()
        try append(kept, key.name, WrittenType(key), to: &batch)
        try writing.withLock {
            do {
                // A batch says of which type the value is, so that another one is set aside.
                try base.commit(batch)
            } catch let error as KVStoreError where error.code == .unsupported {
                try base.set(KVKey(key.name), value: kept)
            } catch var error as KVStoreError where error.operation == .batch {
                error.operation = .set
                throw error
            }
        }
    }

    /// Adds the storing of a value to a batch that is made underneath.
    private func append(_ kept: Kept, _ name: String, _ type: WrittenType?, to batch: inout KVBatch) throws {
        let bytes = try ValueTable.encode(kept, for: KVKey<Kept>(name))
        batch.append(.set(name: name, bytes: bytes), type?.wrapped { [self] in unwrap($0, name) })
    }

    private func unwrap(_ bytes: [UInt8], _ name: String) -> WrittenType.Unwrapped {
        do {
            let kept = try ValueTable.decode(bytes, as: KVKey<Kept>(name))
            if case .value(let kept) = found(kept, at: now()) { return .value(kept.value) }
            return .absent
        } catch {
            return .foreign
        }
    }

    public func remove<T>(_ key: KVKey<T>) throws { try writing.withLock { try base.remove(key) } }

    public func removeAll() throws { try writing.withLock { try base.removeAll() } }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try writing.withLock { try base.set(KVKey(name), value: Kept(value: bytes)) }
    }

    public func removeValue(named name: String) throws {
        try writing.withLock { try base.removeValue(named: name) }
    }

    public func commit(_ batch: KVBatch) throws {
        try writing.withLock {
            while true {
                do {
                    return try base.commit(try inner(batch))
                } catch let error as KVStoreError where error.code == .conflict {
                    // If all requirements still hold, the conflict comes from a concurrent sweep of an expired value.
                    for requirement in batch.requirements {
                        guard try entry(named: requirement.name)?.revision == requirement.revision else { throw error }
                    }
                }
            }
        }
    }

    /// The batch to commit to the base store.
    private func inner(_ batch: KVBatch) throws -> KVBatch {
        var ends: [KeyName: Date] = [:]
        var inner = KVBatch()
        for requirement in batch.requirements {
            var revision = requirement.revision
            if let entry = try base.entry(named: requirement.name) {
                switch found(try kept(entry, requirement.name), at: now()) {
                case .value(let kept) where revision == entry.revision:
                    ends[KeyName(requirement.name)] = kept.expiration
                case .expired where revision == nil: revision = entry.revision
                case .expired: throw KVStoreError(.conflict, .batch, key: requirement.name)
                case .value, .nothing: break
                }
            }
            inner.require(requirement.name, revision: revision)
        }
        for (change, type) in zip(batch.changes, batch.types) {
            switch change {
            case .set(let name, let bytes):
                try append(Kept(expiration: ends[KeyName(name)], value: bytes), name, type, to: &inner)
            case .remove: inner.append(change)
            }
        }
        return inner
    }

    public func synchronize() throws { try base.synchronize() }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeRemoteChanges(handler)
    }
}
