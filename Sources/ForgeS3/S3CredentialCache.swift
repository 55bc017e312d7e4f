#if S3
import Foundation
import Synchronization

/// The present credentials of a store, renewed before they expire. Concurrent calls share one renewal.
final class S3CredentialCache: Sendable {
    /// The time before their expiration at which credentials are renewed.
    static let margin: TimeInterval = 300

    private struct State {
        var known: S3Credentials?
        var renewal: Task<S3Credentials, any Error>?
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Date
    private let load: @Sendable () async throws -> S3Credentials

    init(now: @escaping @Sendable () -> Date, load: @escaping @Sendable () async throws -> S3Credentials) {
        self.now = now
        self.load = load
    }

    /// Credentials that have not expired.
    ///
    /// - Throws: ``S3Error``, or `CancellationError`.
    func current() async throws -> S3Credentials {
        let (known, renewal) = state.withLock { state -> (S3Credentials?, Task<S3Credentials, any Error>?) in
            if let known = state.known, rest(of: known) > Self.margin { return (known, nil) }
            let renewal = state.renewal ?? renewing()
            state.renewal = renewal
            return (state.known, renewal)
        }
        guard let renewal else { return try known.get() }
        do {
            return try await cancellably(renewal)
        } catch {
            try Task.checkCancellation()
            if let known, rest(of: known) > 0 { return known }
            throw error
        }
    }

    /// Forgets credentials that the server has refused.
    func forget(_ refused: S3Credentials) {
        state.withLock { state in
            if state.known == refused { state.known = nil }
        }
    }

    private func rest(of credentials: S3Credentials) -> TimeInterval {
        credentials.expiration.map { $0.timeIntervalSince(now()) } ?? .infinity
    }

    private func renewing() -> Task<S3Credentials, any Error> {
        Task {
            let result: Result<S3Credentials, any Error>
            do { result = .success(try await load()) } catch { result = .failure(error) }
            state.withLock { state in
                state.renewal = nil
                if case .success(let new) = result { state.known = new }
            }
            return try result.get()
        }
    }

    /// Waits for a renewal, which goes on for other calls if this one is cancelled.
    private func cancellably(_ renewal: Task<S3Credentials, any Error>) async throws -> S3Credentials {
        try await withThrowingTaskGroup(of: S3Credentials?.self) { group in
            let (ended, end) = AsyncStream.makeStream(of: Result<S3Credentials, any Error>.self)
            Task {
                end.yield(await renewal.result)
                end.finish()
            }
            group.addTask {
                for await result in ended { return try result.get() }
                throw CancellationError()
            }
            guard let credentials = try await group.next(), let credentials else { throw CancellationError() }
            return credentials
        }
    }
}

extension S3Credentials? {
    fileprivate func get() throws(S3Error) -> S3Credentials {
        guard let self else { throw S3Error(.noCredentials) }
        return self
    }
}
#endif
