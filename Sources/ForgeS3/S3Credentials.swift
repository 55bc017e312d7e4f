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
#endif
