#if Etcd
import Synchronization

/// A lease that this process keeps alive (``EtcdKVStore/keptLease(timeToLive:)``).
///
/// When the last reference is released, it is no longer kept alive and ends after its time.
public final class EtcdLease: Sendable {
    private struct State {
        var isLost = false
        /// When the lease ends unless it is renewed.
        var end: ContinuousClock.Instant
        var waiting: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var waits: UInt64 = 0
    }

    /// The identifier in etcd.
    public let id: Int64

    /// How long values outlive the last renewal.
    public let timeToLive: Duration

    private let state: Mutex<State>
    private let keeping = Mutex<Task<Void, Never>?>(nil)

    init(id: Int64, timeToLive: Duration) {
        self.id = id
        self.timeToLive = timeToLive
        state = Mutex(State(end: .now + timeToLive))
    }

    deinit {
        keeping.withLock { $0?.cancel() }
        lose()
    }

    /// Whether the lease has ended: the cluster said so, or could not be reached for the whole time to live. Values
    /// under it are absent, or will be without notice.
    public var isLost: Bool { state.withLock { $0.isLost || $0.end <= .now } }

    /// Waits until the lease is lost. Other tasks can be stopped then.
    ///
    /// - Throws: `CancellationError` if the task is cancelled.
    public func lost() async throws {
        let id = state.withLock { state in
            state.waits += 1
            return state.waits
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isOver = state.withLock { state in
                    let isOver = state.isLost || Task.isCancelled
                    if !isOver { state.waiting[id] = continuation }
                    return isOver
                }
                if isOver { continuation.resume(with: Result { try Task.checkCancellation() }) }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: id) }?.resume(throwing: CancellationError())
        }
    }

    func lose() {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            state.isLost = true
            return state.waiting
        }
        for continuation in waiting.values { continuation.resume() }
    }

    /// Keeps the lease alive with `renew`, which returns whether it still exists, until it is lost or released.
    func keep(since start: ContinuousClock.Instant, _ renew: @escaping @Sendable (Int64) async -> Bool?) {
        let (id, timeToLive) = (id, timeToLive)
        let task = Task { [weak self] in
            var renewed = start
            self?.state.withLock { $0.end = start + timeToLive }
            while !Task.isCancelled {
                do { try await Task.sleep(for: timeToLive / 3) } catch { return }
                let now = ContinuousClock.now
                let exists = await renew(id)
                if exists == true {
                    renewed = now
                    self?.state.withLock { $0.end = now + timeToLive }
                }
                guard exists == false || ContinuousClock.now >= renewed + timeToLive else { continue }
                self?.lose()
                return
            }
        }
        keeping.withLock { $0 = task }
    }
}
#endif
