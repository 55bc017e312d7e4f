import Synchronization

/// The entries of a cache in memory. Not generic, so that the compiler specialises it and every cache shares its code.
@usableFromInline
final class MemoryEntries: Sendable {
    @usableFromInline typealias Object = any AnyObject & Sendable

    private struct State: Sendable {
        var queue: AdaptiveEvictionQueue<CacheKey, Object>
        var statistics = MemoryCacheStatistics()
    }

    private let state: Mutex<State>
    /// Set at the end of `init`, because the handler captures `self`.
    private let observation = Mutex<MemoryPressure.Observation?>(nil)

    init(limits: CacheLimits, _ pressure: MemoryPressure) {
        state = Mutex(State(queue: AdaptiveEvictionQueue(limits: limits)))
        let observation = MemoryPressure.Observation(pressure) { [weak self] level in self?.relieve(level) }
        self.observation.withLock { $0 = observation }
    }

    @usableFromInline
    func hit(_ key: String) -> Object? { hit(CacheKey(key)) }

    func hit(_ key: CacheKey) -> Object? {
        state.withLock { state in
            let object = state.queue.hit(key)
            if object == nil { state.statistics.missCount &+= 1 } else { state.statistics.hitCount &+= 1 }
            return object
        }
    }

    /// An entry, without counting.
    func peek(_ key: CacheKey) -> Object? { state.withLock { $0.queue.peek(key) } }

    func insert(_ object: Object, for key: CacheKey, sizeInBytes: Int) {
        // The evicted objects are released without the lock, because that may run code of the app.
        withExtendedLifetime(
            state.withLock { state in
                let old = state.queue.peek(key)
                let evicted = state.queue.insert(key, object, sizeInBytes: max(sizeInBytes, 0))
                state.statistics.evictionCount += evicted.count
                return (old, evicted)
            }
        ) {}
    }

    func remove(_ key: CacheKey) -> Object? {
        state.withLock { $0.queue.remove(key)?.payload }
    }

    func removeAll() {
        let old = state.withLock { state in
            let old = state.queue
            state.queue.removeAll()
            return old
        }
        withExtendedLifetime(old) {}
    }

    func trim(to sizeInBytes: Int) {
        trim { _ in CacheLimits(sizeInBytes: sizeInBytes) }
    }

    private func relieve(_ level: MemoryPressure.Level) {
        switch level {
        case .warning: trim { CacheLimits(sizeInBytes: $0.sizeInBytes / 2, count: ($0.count + 1) / 2) }
        case .critical: trim { _ in CacheLimits(sizeInBytes: 0, count: 0) }
        }
    }

    private func trim(to limits: (AdaptiveEvictionQueue<CacheKey, Object>) -> CacheLimits) {
        let evicted = state.withLock { state in
            let evicted = state.queue.trim(to: limits(state.queue))
            state.statistics.evictionCount += evicted.count
            return evicted
        }
        withExtendedLifetime(evicted) {}
    }

    var statistics: MemoryCacheStatistics {
        state.withLock { state in
            var statistics = state.statistics
            statistics.count = state.queue.count
            statistics.sizeInBytes = state.queue.sizeInBytes
            return statistics
        }
    }
}
