#if S3
public import Foundation

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
#endif
