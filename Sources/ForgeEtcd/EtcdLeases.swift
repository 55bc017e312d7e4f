#if Etcd
import ForgeKVStore
import Logging
import Synchronization

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
    private static let longest = Duration.seconds(8_000_000_000)

    private let transport: EtcdTransport
    private let state = Mutex(State())

    init(_ transport: EtcdTransport) {
        self.transport = transport
    }

    /// A lease that lasts at least for a duration.
    func lease(for duration: Duration) async throws(AsyncKVStoreError) -> Int64 {
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
    func keptLease(timeToLive: Duration) async throws(AsyncKVStoreError) -> EtcdLease {
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

    private func grant(_ seconds: Int64) async throws(AsyncKVStoreError) -> Int64 {
        // Repeating leaves a lease without values, which ends by itself.
        let response: EtcdLeaseResponse = try await transport.call(
            EtcdCall(path: "/v3/lease/grant", operation: .lease), EtcdLeaseRequest(TTL: EtcdInteger(seconds)))
        guard let id = response.ID?.value else {
            throw AsyncKVStoreError(.unavailable, .lease, detail: "a lease without an identifier")
        }
        return id
    }

    /// Whether a lease still exists; nil if the cluster did not answer.
    private static func renew(_ id: Int64, _ transport: EtcdTransport, within deadline: Duration) async -> Bool? {
        do throws(AsyncKVStoreError) {
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
