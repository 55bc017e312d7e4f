import ForgeFileSystem
import Synchronization

/// The names and sizes of a cache's files, in the order of their eviction; it exists in memory only.
///
/// The directory is the index on disk: it is listed once, by the first call that needs sizes, so a crash cannot damage
/// or outdate anything. Calls may block.
///
/// A name's file and its entry here change under the lock of the name, so they agree when no call is under way. Files
/// that other processes add are counted from the next listing on, files that they remove until the eviction of their
/// names or, in a cache of images, until a read misses them.
final class FileIndex: Sendable {
    /// A file, as the directory lists it.
    struct Listed {
        var name: String
        var sizeInBytes: Int
    }

    private struct State {
        /// Nil before the directory was listed.
        var queue: AdaptiveEvictionQueue<String, Bool>?
        /// Evicted files that are still to be removed. If that fails, the next insertion tries again.
        var unremoved: Set<String> = []
        var evictionCount = 0
    }

    private let limits: CacheLimits
    private let list: @Sendable () throws -> [Listed]
    private let removeFile: @Sendable (String) throws -> Void
    private let state = Mutex(State())
    /// Held while the directory is listed.
    private let listing = Mutex(())
    private let nameLocks = NameLocks()

    /// - Parameters:
    ///   - limits: The limits of the sum of the files' sizes, and of their number.
    ///   - list: Lists the cache's files, the least recently modified first.
    ///   - removeFile: Removes a file; succeeds if there is none, or if the name belongs to something else.
    init(
        limits: CacheLimits, list: @escaping @Sendable () throws -> [Listed],
        removeFile: @escaping @Sendable (String) throws -> Void
    ) {
        (self.limits, self.list, self.removeFile) = (limits, list, removeFile)
    }

    /// Counts a use of a file.
    func hit(_ name: String) {
        state.withLock { _ = $0.queue?.hit(name) }
    }

    /// Calls `write` to store a file, unless it returns false, and removes files until the limits are kept.
    ///
    /// A file that exceeds the limits alone is removed, together with the one that it would have replaced, and not
    /// written.
    ///
    /// - Throws: The error of listing or of `write`; or the first error of removing an evicted file, after the others
    ///   were removed.
    func store(_ name: String, sizeInBytes: Int, write: () throws -> Bool) throws {
        try listOnce()
        guard limits.permit(sizeInBytes) else { return try remove(name) }
        try nameLocks.withLock(name) {
            guard try write() else { return }
            state.withLock { state in
                state.unremoved.remove(name)
                let evicted = state.queue?.insert(name, true, sizeInBytes: sizeInBytes) ?? []
                state.evictionCount += evicted.count
                state.unremoved.formUnion(evicted.map(\.key))
            }
        }
        try removeEvicted()
    }

    /// Removes a file.
    func remove(_ name: String) throws { try remove(name, with: { try removeFile(name) }) }

    /// Calls `remove` to remove a file.
    func remove(_ name: String, with remove: () throws -> Void) throws {
        try nameLocks.withLock(name) { try clear(name, with: remove) }
    }

    /// Removes a file that was found to be damaged, if `isStillDamaged` confirms it under the lock of its name.
    func remove(_ name: String, if isStillDamaged: () throws -> Bool) throws {
        try nameLocks.withLock(name) {
            guard try isStillDamaged() else { return }
            try clear(name, with: { try removeFile(name) })
        }
    }

    /// Clears the entry of a file that a read has not found, if `isMissing` confirms it under the lock of its name: the
    /// system or another process has removed the file.
    func forget(_ name: String, if isMissing: () throws -> Bool) throws {
        try nameLocks.withLock(name) {
            guard try isMissing() else { return }
            clear(name)
        }
    }

    /// Calls `remove`, which removes a file under the lock of its name, and clears its entry, also if it is not known
    /// whether the removal is durable.
    func clear(_ name: String, with remove: () throws -> Void) throws {
        do {
            try remove()
        } catch {
            if (error as? FileSystemError)?.isEffectVisible == true { clear(name) }
            throw error
        }
        clear(name)
    }

    /// Clears the entry of a file that was removed under the lock of its name.
    private func clear(_ name: String) {
        state.withLock { state in
            state.queue?.remove(name)
            state.unremoved.remove(name)
        }
    }

    /// Removes all files, also those of other processes. Goes on after an error, and throws the first one.
    func removeAll() throws {
        try forEachThrowingFirst(try list().map(\.name)) { try remove($0) }
        // Names whose files other processes have removed.
        let names = state.withLock { ($0.queue?.keys ?? []) + $0.unremoved }
        try forEachThrowingFirst(names) { try remove($0) }
    }

    /// The sum of the sizes of the files; lists the directory if that was not done yet.
    func sizeInBytes() throws -> Int {
        try listOnce()
        try removeEvicted()
        return state.withLock { $0.queue?.sizeInBytes ?? 0 }
    }

    /// The number of evictions since this object was created.
    var evictionCount: Int { state.withLock(\.evictionCount) }

    private func listOnce() throws {
        try listing.withLock { _ in
            guard state.withLock({ $0.queue == nil }) else { return }
            let files = try list()
            // The most recently modified files are kept.
            var keptCount = 0
            var sum = 0
            for file in files.reversed() {
                let (total, overflows) = sum.addingReportingOverflow(file.sizeInBytes)
                guard !overflows, limits.permit(total), keptCount < limits.count else { break }
                sum = total
                keptCount += 1
            }
            var queue = AdaptiveEvictionQueue<String, Bool>(limits: limits)
            for file in files.suffix(keptCount) { _ = queue.insert(file.name, true, sizeInBytes: file.sizeInBytes) }
            let evicted = Set(files.dropLast(keptCount).map(\.name))
            state.withLock { state in
                state.queue = queue
                state.unremoved = evicted
                state.evictionCount += evicted.count
            }
        }
    }

    private func removeEvicted() throws {
        try forEachThrowingFirst(state.withLock { $0.unremoved.sorted() }) { name in
            try nameLocks.withLock(name) {
                // It may have been stored again.
                guard state.withLock({ $0.unremoved.contains(name) }) else { return }
                try removeFile(name)
                state.withLock { _ = $0.unremoved.remove(name) }
            }
        }
    }

    private func forEachThrowingFirst(_ names: [String], _ body: (String) throws -> Void) throws {
        var first: (any Error)?
        for name in names {
            do { try body(name) } catch { first = first ?? error }
        }
        if let first { throw first }
    }
}

/// Locks for names, fewer than names.
private final class NameLocks: Sendable {
    private final class Lock: Sendable {
        let mutex = Mutex(())
    }

    private let locks = (0..<32).map { _ in Lock() }

    func withLock(_ name: String, _ body: () throws -> Void) rethrows {
        let lock = locks[Int(UInt(bitPattern: name.hashValue) % UInt(locks.count))]
        try lock.mutex.withLock { _ in try body() }
    }
}
