#if Etcd
import AsyncHTTPClient
import ForgeHTTP
import ForgeKVStore
import Foundation
import NIOCore
import Synchronization

extension EtcdTransport {
    /// Whether all servers that answer report every event of a watch. Asked until all of them have answered once.
    ///
    /// - Throws: ``AsyncKVStoreError`` if none answers before the deadline.
    func replaysChanges() async throws(AsyncKVStoreError) -> Bool {
        if let known = state.withLock({ $0.replaysChanges }) { return known }
        let end = ContinuousClock.now + configuration.deadline
        var backoff = Backoff()
        var generator = SystemRandomNumberGenerator()
        while true {
            let failure: AsyncKVStoreError
            switch await askVersions() {
            case .success(let replays): return replays
            case .failure(let error): failure = error
            }
            let wait = backoff.next(using: &generator)
            guard failure.code != .cancelled, !state.withLock({ $0.isClosed }), ContinuousClock.now + wait < end else {
                throw failure
            }
            do { try await Task.sleep(for: wait) } catch { throw AsyncKVStoreError(.cancelled, .capabilities) }
        }
    }

    /// Asks each server once; fails if none answers.
    private func askVersions() async -> Result<Bool, AsyncKVStoreError> {
        var found: [EtcdVersion?] = []
        var failure = AsyncKVStoreError(.unavailable, .capabilities)
        for endpoint in configuration.endpoints {
            do {
                let client = client
                let bytes = try await Deadline.limiting(configuration.deadline) {
                    let request = HTTPClientRequest(url: endpoint + "/version")
                    return try await client.execute(request, deadline: .distantFuture).body.collect(upTo: 1 << 16)
                }
                let answer = try JSONDecoder().decode(EtcdServerVersion.self, from: Data(bytes.readableBytesView))
                found.append(EtcdVersion(answer.etcdserver))
            } catch {
                failure = AsyncKVStoreError(
                    Task.isCancelled ? .cancelled : .unavailable, .capabilities, endpoint: endpoint,
                    underlying: error)
            }
        }
        guard !found.isEmpty else { return .failure(failure) }
        let replays = found.allSatisfy { $0?.replaysChanges == true }
        if found.count == configuration.endpoints.count { state.withLock { $0.replaysChanges = replays } }
        return .success(replays)
    }
}
#endif
