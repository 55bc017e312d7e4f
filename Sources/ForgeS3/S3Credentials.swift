#if S3
public import Foundation

/// The keys that sign the requests of a store. Its description and its reflection contain no secret.
public struct S3Credentials: Hashable, Sendable {
    /// The public name of the secret key.
    public var accessKeyID: String

    let secretAccessKey: String
    let sessionToken: String?

    /// The time at which the credentials end; nil for never.
    public var expiration: Date?

    /// Creates credentials.
    ///
    /// - Parameters:
    ///   - accessKeyID: The name of the key.
    ///   - secretAccessKey: The secret key.
    ///   - sessionToken: The token of temporary credentials.
    ///   - expiration: The time at which temporary credentials end.
    public init(
        accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil, expiration: Date? = nil
    ) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
        self.expiration = expiration
    }
}

extension S3Credentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The name of the key, without secrets.
    public var description: String { "access key \(accessKeyID)" }

    public var debugDescription: String { description }

    public var customMirror: Mirror { Mirror(self, children: ["accessKeyID": accessKeyID]) }
}

/// The source of a store's credentials.
///
/// Temporary credentials are renewed five minutes before they expire. Concurrent calls share one renewal. If a renewal
/// fails, the next one begins after a back-off of 1 second, which doubles up to a minute, with jitter. Until then,
/// calls use the old credentials if they have not expired; otherwise they throw the error of the renewal.
public struct S3CredentialSource: Sendable {
    enum Kind: Sendable {
        case values(S3Credentials)
        case environment([String: String])
        case profile(name: String, path: String, isRequired: Bool)
        case container([String: String])
        case instance(endpoint: String)
        case chain([S3CredentialSource])
        case custom(@Sendable () async throws -> S3Credentials)
    }

    let kind: Kind

    /// These credentials.
    public static func values(_ credentials: S3Credentials) -> Self { Self(kind: .values(credentials)) }

    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    public static func environment(_ variables: [String: String] = ProcessInfo.processInfo.environment) -> Self {
        Self(kind: .environment(variables))
    }

    /// A profile of a credentials file. The file is read again when the server refuses the credentials as expired.
    ///
    /// A profile that `AWS_PROFILE` names must exist. Only profiles with keys are supported.
    ///
    /// - Parameters:
    ///   - name: The name of the profile; nil for that in `AWS_PROFILE`, or `default`.
    ///   - path: The path of the file; nil for that in `AWS_SHARED_CREDENTIALS_FILE`, or `~/.aws/credentials`.
    /// - Returns: The source.
    public static func profile(_ name: String? = nil, path: String? = nil) -> Self {
        let variables = ProcessInfo.processInfo.environment
        let home = variables["HOME"] ?? NSHomeDirectory()
        return Self(
            kind: .profile(
                name: name ?? variables["AWS_PROFILE"] ?? "default",
                path: path ?? variables["AWS_SHARED_CREDENTIALS_FILE"] ?? "\(home)/.aws/credentials",
                isRequired: name == nil && variables["AWS_PROFILE"] != nil))
    }

    /// The endpoint that ECS and EKS name in `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI` or
    /// `AWS_CONTAINER_CREDENTIALS_FULL_URI`.
    ///
    /// A full URI must use `https`, or lead to this machine or to the addresses of ECS and EKS ("Container credential
    /// provider", AWS SDKs and Tools Reference Guide).
    public static func container(_ variables: [String: String] = ProcessInfo.processInfo.environment) -> Self {
        Self(kind: .container(variables))
    }

    /// The metadata service of an EC2 instance, with a session (IMDSv2). It is not configured if no connection to it
    /// can be made, or if the instance has no role.
    public static func instanceMetadata(endpoint: String = "http://169.254.169.254") -> Self {
        Self(kind: .instance(endpoint: endpoint))
    }

    /// The first of several sources that is configured.
    ///
    /// A source that is configured and fails ends the call with an error: the next source can have the credentials of
    /// another account. A closure of ``custom(_:)`` is always configured.
    public static func first(of sources: [S3CredentialSource]) -> Self { Self(kind: .chain(sources)) }

    /// The credentials that a closure returns. The store calls it again before they expire.
    public static func custom(_ body: @escaping @Sendable () async throws -> S3Credentials) -> Self {
        Self(kind: .custom(body))
    }

    /// The environment, the profile file, the container and the instance, in this order.
    public static var standard: Self {
        .first(of: [.environment(), .profile(), .container(), .instanceMetadata()])
    }
}

extension S3CredentialSource: CustomStringConvertible, CustomReflectable {
    /// The kind of the source, without secrets.
    public var description: String {
        switch kind {
        case .values(let credentials): credentials.description
        case .environment: "the environment"
        case .profile(let name, _, _): "profile \(name)"
        case .container: "the container"
        case .instance: "the instance"
        case .chain(let sources): sources.map(\.description).joined(separator: ", ")
        case .custom: "a closure"
        }
    }

    public var customMirror: Mirror { Mirror(self, children: ["kind": description]) }
}

/// A credentials file of AWS: profiles in brackets, each with lines `name = value` ("Shared config and credentials
/// files", AWS SDKs and Tools Reference Guide).
struct S3ProfileFile {
    private var profiles: [String: [String: String]] = [:]

    /// Whether the absence of a profile is a failure.
    private var isRequired = false

    /// - Throws: ``S3Error``: `noCredentials` if there is no file and none is required, or `credentialsUnavailable`.
    init(path: String, isRequired: Bool) throws(S3Error) {
        do {
            self.init(text: try String(contentsOfFile: path, encoding: .utf8))
        } catch {
            let isAbsent = (error as? CocoaError)?.code == .fileReadNoSuchFile
            throw S3Error(
                isAbsent && !isRequired ? .noCredentials : .credentialsUnavailable,
                detail: "the credentials file cannot be read")
        }
        self.isRequired = isRequired
    }

    init(text: String) {
        var profile: String?
        for line in text.split(whereSeparator: \.isNewline).map({ $0.trimmingCharacters(in: .whitespaces) }) {
            if line.hasPrefix("[") {
                profile = line.hasSuffix("]") ? line.dropFirst().dropLast().trimmingCharacters(in: .whitespaces) : nil
            } else if let profile, !line.hasPrefix("#"), !line.hasPrefix(";"), let sign = line.firstIndex(of: "=") {
                let name = line[..<sign].trimmingCharacters(in: .whitespaces)
                profiles[profile, default: [:]][name] =
                    line[line.index(after: sign)...].trimmingCharacters(in: .whitespaces)
            }
        }
    }

    /// Settings of profiles whose credentials come from elsewhere.
    private static let unsupported = [
        "credential_process", "role_arn", "sso_session", "sso_start_url", "web_identity_token_file",
    ]

    /// - Throws: ``S3Error``: `noCredentials` if the file has no keys of the profile and none are required, or
    ///   `credentialsUnavailable`.
    func credentials(of name: String) throws(S3Error) -> S3Credentials {
        let profile = profiles[name] ?? [:]
        guard let id = profile["aws_access_key_id"], let secret = profile["aws_secret_access_key"], !id.isEmpty,
            !secret.isEmpty
        else {
            let isConfigured = (Self.unsupported + ["aws_access_key_id", "aws_secret_access_key"])
                .contains { profile[$0] != nil }
            throw S3Error(
                isRequired || isConfigured ? .credentialsUnavailable : .noCredentials,
                detail: "the credentials file has no keys of the profile \(name)")
        }
        return S3Credentials(accessKeyID: id, secretAccessKey: secret, sessionToken: profile["aws_session_token"])
    }
}
#endif
