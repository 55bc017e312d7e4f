#if Etcd
import ForgeFileSystem
import ForgeKVStore
import Logging
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

    /// Waits until the loss is noticed, to stop what depends on the lease. That is when the time to live ends or, if a
    /// renewal is under way then, when that has failed: up to a third of the time to live after ``isLost`` is true.
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
            while true {
                let end = renewed + timeToLive
                do { try await Task.sleep(until: min(.now + timeToLive / 3, end)) } catch { return }
                let now = ContinuousClock.now
                guard now < end else { break }
                let exists = await renew(id)
                if exists == true {
                    renewed = now
                    self?.state.withLock { $0.end = now + timeToLive }
                }
                guard exists != false else { break }
            }
            self?.lose()
        }
        keeping.withLock { $0 = task }
    }
}

/// The leases of a store, shared by the values that are written within a second, or as long as they are kept alive.
final class EtcdLeases: Sendable {
    private struct Shared {
        var id: Int64
        var granted: ContinuousClock.Instant
    }

    private struct Kept {
        weak var lease: EtcdLease?
    }

    private struct State {
        var shared: [Int64: Shared] = [:]
        var kept: [Int64: Kept] = [:]
    }

    /// By how much a value may outlive its time while the cluster keeps its leader: rounding up, sharing, the servers'
    /// minimum and their checks. A new leader begins the time of every lease again.
    static let granularity = Duration.seconds(4)

    /// For how long a lease is given to further values.
    private static let sharing = Duration.seconds(1)

    /// The servers accept up to 9,000,000,000 seconds.
    private static let longest = Duration(secondsComponent: 8_000_000_000, attosecondsComponent: 0)

    private let transport: EtcdTransport
    private let state = Mutex(State())

    init(_ transport: EtcdTransport) {
        self.transport = transport
    }

    /// A lease that lasts at least for a duration.
    func lease(for duration: Duration) async throws(KVStoreError) -> Int64 {
        let seconds = Self.seconds(min(duration, Self.longest) + Self.sharing)
        let now = ContinuousClock.now
        if let shared = state.withLock({ $0.shared[seconds] }), now < shared.granted + Self.sharing {
            return shared.id
        }
        let id = try await grant(seconds)
        state.withLock { state in
            state.shared = state.shared.filter { now < $0.value.granted + Self.sharing }
            state.shared[seconds] = Shared(id: id, granted: now)
        }
        return id
    }

    /// Does not give a lease to further values.
    func forget(_ id: Int64) {
        state.withLock { state in state.shared = state.shared.filter { $0.value.id != id } }
    }

    /// A lease that is kept alive.
    func keptLease(timeToLive: Duration) async throws(KVStoreError) -> EtcdLease {
        let seconds = max(Self.seconds(min(timeToLive, Self.longest)), 2)
        if let lease = state.withLock({ $0.kept[seconds]?.lease }), !lease.isLost { return lease }
        let start = ContinuousClock.now
        let lease = EtcdLease(id: try await grant(seconds), timeToLive: .seconds(seconds))
        lease.keep(since: start) { [transport] id in
            await Self.renew(id, transport, within: Duration.seconds(seconds) / 3)
        }
        return state.withLock { state in
            // Another call may have made one meanwhile; this one is released and ends.
            if let other = state.kept[seconds]?.lease, !other.isLost { return other }
            state.kept[seconds] = Kept(lease: lease)
            return lease
        }
    }

    private func grant(_ seconds: Int64) async throws(KVStoreError) -> Int64 {
        // Repeating leaves a lease without values, which ends by itself.
        let response: EtcdLeaseResponse = try await transport.call(
            EtcdCall(path: "/v3/lease/grant", operation: .lease), EtcdLeaseRequest(TTL: EtcdInteger(seconds)))
        guard let id = response.ID?.value else {
            throw KVStoreError(.unavailable(.server), .lease, detail: "a lease without an identifier")
        }
        return id
    }

    /// Whether a lease still exists; nil if the cluster did not answer.
    private static func renew(_ id: Int64, _ transport: EtcdTransport, within deadline: Duration) async -> Bool? {
        do throws(KVStoreError) {
            let response: EtcdStreamed<EtcdLeaseResponse> = try await transport.call(
                EtcdCall(path: "/v3/lease/keepalive", operation: .lease, deadline: deadline),
                EtcdLeaseRequest(ID: EtcdInteger(id)))
            guard let result = response.result else { return nil }
            return result.TTL.map { $0.value > 0 } ?? false
        } catch {
            transport.configuration.logger.notice("a lease was not renewed", metadata: ["error": "\(error)"])
            return error.code == .leaseLost ? false : nil
        }
    }

    /// Whole seconds, rounded up, at least 1.
    private static func seconds(_ duration: Duration) -> Int64 {
        max(1, Int64((duration / .seconds(1)).rounded(.up)))
    }
}
#endif
