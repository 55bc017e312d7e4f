#if S3
public import ForgeFileStore

/// The reason why a call of a store in S3 failed; the underlying error of a `FileStoreError`.
///
/// It contains no keys, no secrets, and not the server's message, which may quote the request.
public struct S3Error: Error, Hashable, Sendable {
    /// The reason of a failure.
    public enum Reason: Hashable, Sendable {
        /// The server has refused the request; see ``S3Error/code``.
        case refused

        /// The server cannot be reached, or fails.
        case unavailable

        /// The call has reached its deadline; nothing was changed.
        case timeout

        /// A request that changes something was sent, and its answer is unknown: it may have taken effect, or still do.
        case unknownOutcome

        /// The task was cancelled.
        case cancelled

        /// No source of credentials is configured; see ``S3Error/detail``.
        case noCredentials

        /// A source of credentials is configured and fails; see ``S3Error/detail``.
        case credentialsUnavailable

        /// The answer is not one of S3.
        case invalidAnswer

        /// The server ignores `If-None-Match` (of the calls in ``S3Error/detail``), so that no save can be exclusive.
        case noExclusiveCreation

        /// The server ignores `If-Match` (of the calls in ``S3Error/detail``), so that no save can require a revision.
        case noConditionalReplacement

        /// The content does not have the checksum that was stored with it.
        case damaged

        /// The configuration is not valid; see ``S3Error/detail``.
        case invalidConfiguration
    }

    /// The reason.
    public var reason: Reason

    /// The HTTP status of the last answer; nil if there was none.
    public var status: Int?

    /// S3's code of the error, such as `AccessDenied`.
    public var code: String?

    /// The server's identifier of the request, for its operator.
    public var requestID: String?

    /// More about the reason.
    public var detail: String?

    /// Whether an earlier attempt of the same request may have taken effect.
    var mayBeApplied = false

    init(_ reason: Reason, status: Int? = nil, code: String? = nil, requestID: String? = nil, detail: String? = nil) {
        self.reason = reason
        self.status = status
        self.code = code
        self.requestID = requestID
        self.detail = detail
    }
}

extension S3Error: CustomStringConvertible, FileStoreCause {
    /// One line.
    public var description: String {
        let words: String? =
            switch reason {
            case .refused: nil
            case .unavailable: "the server is unavailable"
            case .timeout: "the time is over"
            case .unknownOutcome: "the outcome is unknown"
            case .cancelled: "cancelled"
            case .noCredentials: "no credentials"
            case .credentialsUnavailable: "the credentials cannot be read"
            case .invalidAnswer: "the answer is not valid"
            case .noExclusiveCreation: "the server does not create exclusively"
            case .noConditionalReplacement: "the server does not replace conditionally"
            case .damaged: "the content is damaged"
            case .invalidConfiguration: "the configuration is not valid"
            }
        let parts = [
            words, code, status.map { "status \($0)" }, detail, requestID.map { "request \($0)" },
        ]
        return parts.compactMap(\.self).joined(separator: ", ")
    }
}
#endif
