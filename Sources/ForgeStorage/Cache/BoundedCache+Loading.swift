import ForgeCoding
import ForgeFileSystem
import Foundation
import Synchronization

/// Finding an entry that is not in memory.
extension BoundedCache {
    typealias Entry = CacheEntry<Value>
    typealias Load = @Sendable (StaleCacheEntry<Value>?) async throws -> CacheLoad<Value>

    /// Holds what is removed from memory while a lock is held, to release it afterwards.
    private final class Bin: Sendable {
        private let removed = Mutex<[MemoryEntries.Removed]>([])

        func add(_ new: MemoryEntries.Removed) { removed.withLock { $0.append(new) } }
    }

    /// The result of looking for a key on disk.
    private enum Found {
        case nothing
        case entry(Entry, sizeInBytes: Int)
    }

    func find(_ key: CacheKey, _ load: @escaping Load) async throws -> Entry {
        while true {
            let known = memory.peek(key) as? Entry
            if let known, known.staleness(at: options.now) == nil { return known }
            if let flight = flights.begin(key) { return try await lead(flight, key, known, load) }
            if let known, isUsableWhileLoading(known) { return known }
            if let entry = try await flights.join(key) { return entry }
        }
    }

    private func lead(_ flight: Int, _ key: CacheKey, _ known: Entry?, _ load: @escaping Load) async throws -> Entry {
        var stale = known
        // On the caller's thread only what is in memory, since the disk may not answer.
        let found = found(key) { try $0.cachedContent(of: key.string) }
        if case .entry(let entry, let size) = found {
            promote(entry, key, flight, size)
            guard entry.staleness(at: options.now) != nil else {
                flights.finish(flight, key, .success(entry))
                return entry
            }
            stale = entry
        }
        let last = stale
        let readsDisk = found == nil
        let start = { @Sendable in Task { await self.load(flight, key, last, readsDisk: readsDisk, load) } }
        if let last, isUsableWhileLoading(last) {
            flights.start(flight, start)
            return last
        }
        // A flight that the caller has begun cannot end before it is joined.
        guard let entry = try await flights.join(flight, key, start) else { throw CancellationError() }
        return entry
    }

    private func isUsableWhileLoading(_ entry: Entry) -> Bool {
        guard let staleness = entry.staleness(at: options.now) else { return true }
        return staleness < options.staleWhileLoading.milliseconds
    }

    /// The task of a flight.
    private func load(_ flight: Int, _ key: CacheKey, _ known: Entry?, readsDisk: Bool, _ load: Load) async {
        var stale = known
        if readsDisk, let disk {
            let found = await disk.lane.run { self.found(key) { try $0.content(of: key.string) } }
            if case .entry(let entry, let size) = found {
                promote(entry, key, flight, size)
                if entry.staleness(at: options.now) == nil { return flights.finish(flight, key, .success(entry)) }
                if isUsableWhileLoading(entry) { flights.answer(flight, entry) }
                stale = entry
            }
        }
        counts.withLock { counts in
            counts.loadCount += 1
            if stale == nil { counts.missCount += 1 }
        }
        do {
            let entry = try entry(of: try await load(stale?.stale), stale, key)
            await store(entry, key, isWanted: { self.flights.isCurrent(flight, key) }) { insert in
                self.flights.ifCurrent(flight, key, insert)
            }
            flights.finish(flight, key, .success(entry))
        } catch {
            counts.withLock { $0.failedLoadCount += 1 }
            guard let stale, stale.value != nil, let staleness = stale.staleness(at: options.now),
                staleness <= max(options.staleIfLoadFails, options.staleWhileLoading).milliseconds
            else { return flights.finish(flight, key, .failure(error)) }
            report(.load, key, error)
            flights.finish(flight, key, .success(stale))
        }
    }

    private func entry(of loaded: CacheLoad<Value>, _ stale: Entry?, _ key: CacheKey) throws -> Entry {
        let now = options.now()
        switch loaded {
        case .value(let value, let lifetime, let tag):
            return Entry(value: value, tag: tag, expiry: now.expiry(after: lifetime))
        case .absent(let lifetime):
            return Entry(value: nil, tag: nil, expiry: now.expiry(after: lifetime))
        case .notModified(let lifetime):
            guard let stale else { throw CacheError(.renew, key: key.string) }
            return Entry(value: stale.value, tag: stale.tag, expiry: now.expiry(after: lifetime))
        }
    }

    // MARK: Layers

    /// The entry that `read` finds; nil if it has to be looked for in another way.
    private func found(_ key: CacheKey, _ read: (CacheDirectory) throws -> CacheDirectory.Reading?) -> Found? {
        guard let disk else { return .nothing }
        do {
            switch try read(disk) {
            case nil: return nil
            case .missing: return .nothing
            case .damaged(let damage):
                report(.read, key, damage)
                return .nothing
            case .file(let file):
                do {
                    let value = try file.payload.map { try coding.decode($0) }
                    let entry = Entry(value: value, tag: file.tag, expiry: file.expiry)
                    let isStale = entry.staleness(at: options.now) != nil
                    counts.withLock { if isStale { $0.staleDiskHitCount += 1 } else { $0.diskHitCount += 1 } }
                    return .entry(entry, sizeInBytes: file.payload?.count ?? 0)
                } catch {
                    report(.decode, key, CodingFailure(.decode, describing: error))
                    return .nothing
                }
            }
        } catch {
            report(.read, key, error)
            return .nothing
        }
    }

    /// Puts an entry from disk into memory.
    private func promote(_ entry: Entry, _ key: CacheKey, _ flight: Int, _ sizeInBytes: Int) {
        let cost = cost(of: entry, key, encodedSize: sizeInBytes)
        let bin = Bin()
        defer { withExtendedLifetime(bin) {} }
        flights.ifCurrent(flight, key) { bin.add(memory.insert(entry, for: key, sizeInBytes: cost)) }
    }

    /// Stores an entry in both layers.
    ///
    /// - Parameters:
    ///   - entry: The entry.
    ///   - key: Its key.
    ///   - isWanted: Whether the entry is still to be stored; called just before.
    ///   - inserting: Calls its argument, which puts the entry into memory, if the entry is still wanted.
    func store(
        _ entry: Entry, _ key: CacheKey, isWanted: @escaping @Sendable () -> Bool,
        inserting: @escaping @Sendable (() -> Void) -> Void
    ) async {
        // The evicted values are released at the end: their deinitializers may cancel callers of this cache, which takes
        // the lock under which an entry is inserted.
        let bin = Bin()
        defer { withExtendedLifetime(bin) {} }
        var payload: Data?
        if let value = entry.value, disk != nil || coding.cost == nil {
            do {
                payload = try coding.encode(value)
            } catch {
                report(.encode, key, CodingFailure(.encode, describing: error))
                await removeOld(key, isWanted: isWanted)
                guard coding.cost != nil else {
                    return inserting { bin.add((memory.remove(key), [])) }
                }
            }
        }
        let cost = cost(of: entry, key, encodedSize: payload?.count ?? 0)
        let insert = { @Sendable in
            inserting { bin.add(self.memory.insert(entry, for: key, sizeInBytes: cost)) }
        }
        guard let disk, entry.value == nil || payload != nil else { return insert() }
        let file = CacheFile(key: key.string, tag: entry.tag, expiry: entry.expiry, payload: payload)
        do {
            let isStored = try await disk.lane.run { () throws(any Error) in
                let isStored = Mutex(false)
                do {
                    try disk.store(file, isWanted: isWanted) {
                        insert()
                        isStored.withLock { $0 = true }
                    }
                } catch {
                    // Removing evicted files may have failed after the entry was stored.
                    guard isStored.withLock({ $0 }) else { throw error }
                    self.report(.write, key, error)
                }
                return isStored.withLock { $0 }
            }
            if !isStored { insert() }
        } catch {
            report(.write, key, error)
            insert()
        }
    }

    /// Removes the entry on disk that a value which cannot be encoded replaces.
    private func removeOld(_ key: CacheKey, isWanted: @escaping @Sendable () -> Bool) async {
        guard let disk else { return }
        do {
            try await disk.lane.run { () throws(any Error) in if isWanted() { try disk.remove(key.string) } }
        } catch {
            report(.write, key, error)
        }
    }

    private func cost(of entry: Entry, _ key: CacheKey, encodedSize: Int) -> Int {
        guard let value = entry.value else { return key.string.utf8.count }
        return coding.cost?(value) ?? encodedSize
    }

    func report(_ reason: CacheError.Reason, _ key: CacheKey, _ error: any Error) {
        counts.withLock { $0.errorCount += 1 }
        options.onError(CacheError(reason, key: key.string, underlying: error))
    }
}
