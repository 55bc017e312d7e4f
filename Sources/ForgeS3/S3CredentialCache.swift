#if S3
import ForgeHTTP
import Foundation
import Synchronization

/// The present credentials of a store, renewed before they expire. Concurrent calls share one renewal.
final class S3CredentialCache: Sendable {
    /// The time before their expiration at which credentials are renewed.
    static let refreshMargin: TimeInterval = 300

    /// The time before their expiration from which calls wait for the renewal.
    static let waitingMargin: TimeInterval = 60

    /// How long a call waits for the renewal of credentials that have not expired.
    static let patience = Duration.seconds(5)

    /// The longest pause between two renewals.
    static let longestPause: TimeInterval = 60

    private struct State {
        var known: S3Credentials?
        var renewal: Task<S3Credentials, any Error>?
        var pause: Pause?
    }

    /// A pause between renewals, after one that has failed, or that returned credentials about to expire.
    private struct Pause {
        var failures: Int

        /// The error of the renewal; nil if it has not failed.
        var cause: (any Error)?
        var end: Date
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Date
    private let load: @Sendable () async throws -> S3Credentials

    init(now: @escaping @Sendable () -> Date, load: @escaping @Sendable () async throws -> S3Credentials) {
        self.now = now
        self.load = load
    }

    /// Credentials that need no renewal yet; nil if there are none.
    var present: S3Credentials? {
        state.withLock { $0.known.flatMap { rest(of: $0) > Self.refreshMargin ? $0 : nil } }
    }

    private enum Step {
        case done(Result<S3Credentials, any Error>)
        case renewal(Task<S3Credentials, any Error>, known: S3Credentials?)
    }

    /// Credentials that have not expired.
    ///
    /// - Throws: ``S3Error``, or `CancellationError`.
    func current() async throws -> S3Credentials {
        let step = state.withLock { state -> Step in
            let rest = state.known.map(rest) ?? 0
            if let known = state.known, rest > Self.refreshMargin { return .done(.success(known)) }
            if let pause = state.pause, isLasting(pause) {
                // Whether new credentials that have expired by the local clock are valid, the server decides.
                if let known = state.known, rest > 0 || pause.cause == nil { return .done(.success(known)) }
                if let cause = pause.cause { return .done(.failure(cause)) }
            }
            let renewal = state.renewal ?? renewing()
            state.renewal = renewal
            if let known = state.known, rest > Self.waitingMargin { return .done(.success(known)) }
            return .renewal(renewal, known: state.known)
        }
        switch step {
        case .done(let result): return try result.get()
        case .renewal(let renewal, let known):
            guard let known, rest(of: known) > 0 else { return try await renewal.valueForWaiter() }
            do {
                return try await Deadline.limiting(Self.patience) { try await renewal.valueForWaiter() }
            } catch {
                try Task.checkCancellation()
                guard rest(of: known) > 0 else { throw error }
                return known
            }
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
                switch result {
                case .success(let new):
                    state.known = new
                    let rest = rest(of: new)
                    // Otherwise every request would begin a renewal, as long as the source has nothing newer.
                    state.pause =
                        rest > Self.refreshMargin
                        ? nil : Pause(failures: 0, end: now() + min(Self.longestPause, max(rest / 2, 1)))
                case .failure(let error):
                    state.pause = pause(after: state.pause, error)
                }
            }
            return try result.get()
        }
    }

    /// A pause of 1 second, which doubles with every failure; up to half of it is left out at random.
    private func pause(after last: Pause?, _ cause: any Error) -> Pause {
        let failures = last?.failures ?? 0
        var generator = SystemRandomNumberGenerator()
        let seconds = min(Self.longestPause, TimeInterval(1 << min(failures, 10)))
        return Pause(
            failures: failures + 1, cause: cause, end: now() + seconds * .random(in: 0.5...1, using: &generator))
    }

    /// Whether a pause has not ended; a clock that is set back ends it.
    private func isLasting(_ pause: Pause) -> Bool {
        0...Self.longestPause ~= pause.end.timeIntervalSince(now()) && pause.end > now()
    }
}
#endif
