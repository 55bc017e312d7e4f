#if S3
import AsyncHTTPClient
import ForgeHTTP
import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// Reads credentials from their sources.
struct S3CredentialLoader: Sendable {
    /// The timeout of one request to a credential endpoint, which is on this machine or beside it. The timeout of
    /// connecting is shorter: it distinguishes a missing metadata service from a slow one.
    static let limit = Duration.seconds(8)

    let client: HTTPClient

    /// Reads credentials.
    ///
    /// - Throws: ``S3Error`` with the reason `noCredentials` if the source is not configured, `credentialsUnavailable`
    ///   if it fails, or `CancellationError`.
    func load(_ source: S3CredentialSource) async throws -> S3Credentials {
        switch source.kind {
        case .values(let credentials): return credentials
        case .environment(let variables): return try Self.credentials(in: variables)
        case .profile(let name, let path, let isRequired):
            return try S3ProfileFile(path: path, isRequired: isRequired).credentials(of: name)
        case .container(let variables): return try await container(variables)
        case .instance(let endpoint): return try await instance(endpoint)
        case .custom(let body):
            do {
                return try await body()
            } catch let error as S3Error {
                throw error
            } catch {
                try Task.checkCancellation()
                // The description of an unknown error could contain a secret.
                throw S3Error(.credentialsUnavailable, detail: "the closure has thrown \(type(of: error))")
            }
        case .chain(let sources):
            var reasons: [String] = []
            for source in sources {
                do {
                    return try await load(source)
                } catch let error as S3Error where error.reason == .noCredentials {
                    // The credentials of the next source can be of another account: only a source that is not
                    // configured is skipped.
                    reasons.append(error.detail ?? error.description)
                }
            }
            throw S3Error(.noCredentials, detail: reasons.joined(separator: "; "))
        }
    }

    static func credentials(in variables: [String: String]) throws(S3Error) -> S3Credentials {
        let (id, secret) = (variables["AWS_ACCESS_KEY_ID"] ?? "", variables["AWS_SECRET_ACCESS_KEY"] ?? "")
        guard !id.isEmpty || !secret.isEmpty else {
            throw S3Error(.noCredentials, detail: "the environment has no AWS_ACCESS_KEY_ID")
        }
        guard !id.isEmpty, !secret.isEmpty else {
            throw S3Error(
                .credentialsUnavailable,
                detail: "the environment has only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        }
        let token = variables["AWS_SESSION_TOKEN"].flatMap { $0.isEmpty ? nil : $0 }
        return S3Credentials(accessKeyID: id, secretAccessKey: secret, sessionToken: token)
    }

    // MARK: Endpoints

    private func container(_ variables: [String: String]) async throws -> S3Credentials {
        let url: String
        if let path = variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], !path.isEmpty {
            // Without the slash the path would continue the name of the host.
            guard path.hasPrefix("/") else {
                throw S3Error(.credentialsUnavailable, detail: "the container's relative URI has no slash")
            }
            url = "http://169.254.170.2\(path)"
        } else if let full = variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"], !full.isEmpty {
            guard Self.isTrusted(full) else {
                throw S3Error(
                    .credentialsUnavailable, detail: "the container's URI is neither https nor on this machine")
            }
            url = full
        } else {
            throw S3Error(.noCredentials, detail: "the environment names no container endpoint")
        }
        var token = variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
        if let path = variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] {
            do {
                token = try String(contentsOfFile: path, encoding: .utf8).trimmingCharacters(in: .newlines)
            } catch {
                throw S3Error(.credentialsUnavailable, detail: "the container's token file cannot be read")
            }
        }
        return try await decoded(get(url, headers: token.map { [("Authorization", $0)] } ?? [], "container"))
    }

    /// Whether credentials may be asked for at a URL.
    static func isTrusted(_ text: String) -> Bool {
        guard let url = URLComponents(string: text), let host = url.host else { return false }
        if url.scheme == "https" { return true }
        let name = host.trimmingCharacters(in: ["[", "]"])
        return url.scheme == "http"
            && (["localhost", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"].contains(name)
                || name.hasPrefix("127.") && name.split(separator: ".").allSatisfy { UInt8($0) != nil })
    }

    /// "Use the Instance Metadata Service to access instance metadata", Amazon EC2 User Guide.
    private func instance(_ endpoint: String) async throws -> S3Credentials {
        let token = try await get(
            "\(endpoint)/latest/api/token", method: .PUT,
            headers: [("X-aws-ec2-metadata-token-ttl-seconds", "21600")], "instance", isOptional: true)
        let headers = [("X-aws-ec2-metadata-token", String(buffer: token))]
        let path = "\(endpoint)/latest/meta-data/iam/security-credentials/"
        let roles = String(buffer: try await get(path, headers: headers, "instance", isOptional: true))
        guard let role = roles.split(separator: "\n").first else {
            throw S3Error(.noCredentials, detail: "the instance has no role")
        }
        return try await decoded(get(path + S3Encoding.component(String(role)), headers: headers, "instance"))
    }

    private struct Answer: Decodable {
        var AccessKeyId: String
        var SecretAccessKey: String
        var Token: String?
        var Expiration: String?
    }

    private func decoded(_ bytes: ByteBuffer) throws(S3Error) -> S3Credentials {
        let answer: Answer
        do {
            answer = try JSONDecoder().decode(Answer.self, from: Data(bytes.readableBytesView))
        } catch {
            throw S3Error(.credentialsUnavailable, detail: "the answer of the endpoint is not valid")
        }
        let expiration = S3Date.listed(answer.Expiration)
        // Credentials whose end is not understood would be used for ever.
        guard answer.Expiration == nil || expiration != nil else {
            throw S3Error(.credentialsUnavailable, detail: "the expiration of the credentials is not a time")
        }
        return S3Credentials(
            accessKeyID: answer.AccessKeyId, secretAccessKey: answer.SecretAccessKey, sessionToken: answer.Token,
            expiration: expiration)
    }

    /// The body of an answer; `isOptional` says whether an endpoint that does not exist is a source that is not
    /// configured.
    private func get(
        _ url: String, method: HTTPMethod = .GET, headers: [(String, String)], _ name: String, isOptional: Bool = false
    ) async throws -> ByteBuffer {
        var request = HTTPClientRequest(url: url)
        request.method = method
        request.headers.add(contentsOf: headers)
        do {
            let (client, request) = (client, request)
            return try await Deadline.limiting(Self.limit) {
                let response = try await client.execute(request, deadline: .distantFuture)
                guard response.status == .ok else {
                    throw S3Error(
                        isOptional && response.status == .notFound ? .noCredentials : .credentialsUnavailable,
                        status: Int(response.status.code), detail: "the \(name) has refused the request")
                }
                return try await response.body.collect(upTo: 1 << 20)
            }
        } catch let error as S3Error {
            throw error
        } catch {
            try Task.checkCancellation()
            let isAbsent = S3Attempt.hasNoConnection(error)
            throw S3Error(
                isOptional && isAbsent ? .noCredentials : .credentialsUnavailable, detail: "the \(name) does not answer"
            )
        }
    }
}

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
        // The app's clock, and its source of credentials, are called without the lock.
        let now = self.now()
        return state.withLock { $0.known.flatMap { rest(of: $0, at: now) > Self.refreshMargin ? $0 : nil } }
    }

    private enum Step {
        case done(Result<S3Credentials, any Error>)
        case renewal(Task<S3Credentials, any Error>, known: S3Credentials?)
    }

    /// The credentials for a request, renewed if they are due.
    ///
    /// - Throws: ``S3Error``, or `CancellationError`.
    func current() async throws -> S3Credentials {
        let now = self.now()
        let step = state.withLock { state -> Step in
            let rest = state.known.map { self.rest(of: $0, at: now) } ?? 0
            if let known = state.known, rest > Self.refreshMargin { return .done(.success(known)) }
            if let pause = state.pause, isLasting(pause, at: now) {
                // The server decides whether new credentials that have expired by the local clock are valid.
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
            guard let known, rest(of: known, at: now) > 0 else { return try await renewal.valueForWaiter() }
            do {
                return try await Deadline.limiting(Self.patience) { try await renewal.valueForWaiter() }
            } catch {
                try Task.checkCancellation()
                guard rest(of: known, at: self.now()) > 0 else { throw error }
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

    private func rest(of credentials: S3Credentials, at now: Date) -> TimeInterval {
        credentials.expiration.map { $0.timeIntervalSince(now) } ?? .infinity
    }

    private func renewing() -> Task<S3Credentials, any Error> {
        Task {
            let result: Result<S3Credentials, any Error>
            do { result = .success(try await load()) } catch { result = .failure(error) }
            let now = self.now()
            state.withLock { state in
                state.renewal = nil
                switch result {
                case .success(let new):
                    state.known = new
                    let rest = self.rest(of: new, at: now)
                    // Otherwise every request would begin a renewal, as long as the source has nothing newer.
                    state.pause =
                        rest > Self.refreshMargin
                        ? nil : Pause(failures: 0, end: now + min(Self.longestPause, max(rest / 2, 1)))
                case .failure(let error):
                    state.pause = pause(after: state.pause, error, at: now)
                }
            }
            return try result.get()
        }
    }

    /// A pause of 1 second, which doubles with every failure; up to half of it is left out at random.
    private func pause(after last: Pause?, _ cause: any Error, at now: Date) -> Pause {
        let failures = last?.failures ?? 0
        var generator = SystemRandomNumberGenerator()
        let seconds = min(Self.longestPause, TimeInterval(1 << min(failures, 10)))
        return Pause(
            failures: failures + 1, cause: cause, end: now + seconds * .random(in: 0.5...1, using: &generator))
    }

    /// Whether a pause has not ended; a clock that is set back ends it.
    private func isLasting(_ pause: Pause, at now: Date) -> Bool {
        0...Self.longestPause ~= pause.end.timeIntervalSince(now) && pause.end > now
    }
}
#endif
