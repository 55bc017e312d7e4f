import ForgeCoding

/// A failed call of an asynchronous store: the operation, key, endpoint and reason.
///
/// It never contains a stored value, or one to be stored, nor a password or token.
public struct AsyncKVStoreError: Error, Sendable {
    /// The reason for the failure.
    public var code: Code

    /// The operation that failed.
    public var operation: Operation

    /// The name of the key, if the call concerns one.
    public var key: String?

    /// The server that was asked, as `scheme://host:port`; nil for a local store, or if none was reached.
    public var endpoint: String?

    /// The identifier of the request in the store's logs; nil for a local store.
    public var requestID: String?

    /// The server's own words, which contain no values.
    public var detail: String?

    /// The underlying error, without values.
    public var underlying: (any Error)?

    /// Creates an error.
    public init(
        _ code: Code, _ operation: Operation, key: String? = nil, endpoint: String? = nil, requestID: String? = nil,
        detail: String? = nil, underlying: (any Error)? = nil
    ) {
        self.code = code
        self.operation = operation
        self.key = key
        self.endpoint = endpoint
        self.requestID = requestID
        self.detail = detail
        self.underlying = underlying
    }
}

extension AsyncKVStoreError {
    /// The reason for a failure. Codes may be added, so a `switch` needs a default.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: Hashable, Sendable {
            case unavailable, timeout, unknownOutcome, durabilityUnknown, conflict, refused, tooLarge, leaseLost,
                cancelled, notYetVisible
            case invalidKey, undecodable, unencodable
            case newerSchema(UInt32)
        }

        private let kind: Kind

        /// The store cannot be reached, or cannot serve the call at present. Nothing was changed.
        public static let unavailable = Code(kind: .unavailable)

        /// The deadline has passed. Nothing was changed.
        public static let timeout = Code(kind: .timeout)

        /// The write was sent; whether it was or will be applied is unknown.
        public static let unknownOutcome = Code(kind: .unknownOutcome)

        /// The write is visible, but a power cut may undo it.
        public static let durabilityUnknown = Code(kind: .durabilityUnknown)

        /// The write is applied, but a ``MirroredKVStore`` does not show it yet.
        public static let notYetVisible = Code(kind: .notYetVisible)

        /// A requirement does not hold because of a concurrent change. Nothing was changed.
        public static let conflict = Code(kind: .conflict)

        /// The store does not support or permit the call. Nothing was changed.
        public static let refused = Code(kind: .refused)

        /// The batch or a value exceeds a limit of the store. Nothing was changed.
        public static let tooLarge = Code(kind: .tooLarge)

        /// The lease has ended: its values are absent, and writes under it change nothing.
        public static let leaseLost = Code(kind: .leaseLost)

        /// The task was cancelled. Nothing was changed.
        public static let cancelled = Code(kind: .cancelled)

        /// The name of the key is longer than ``KVKey/maximumNameLength``.
        public static let invalidKey = Code(kind: .invalidKey)

        /// The value cannot be decoded as the type of the key. It is kept.
        public static let undecodable = Code(kind: .undecodable)

        /// The value cannot be encoded. The old value is kept.
        public static let unencodable = Code(kind: .unencodable)

        /// The value has a later schema version than the key. It is kept.
        public static func newerSchema(version: UInt32) -> Code { Code(kind: .newerSchema(version)) }

        /// The version of the value, if this is `.newerSchema(version:)`.
        public var newerVersion: UInt32? {
            guard case .newerSchema(let version) = kind else { return nil }
            return version
        }

        public var description: String {
            switch kind {
            case .unavailable: "unavailable"
            case .timeout: "the deadline has passed; nothing was changed"
            case .unknownOutcome: "sent, and whether it was or will be applied is unknown"
            case .durabilityUnknown: "written, but a power cut may undo it"
            case .notYetVisible: "applied, but the mirror does not show it yet"
            case .conflict: "changed concurrently"
            case .refused: "refused"
            case .tooLarge: "too large"
            case .leaseLost: "the lease has ended"
            case .cancelled: "cancelled"
            case .invalidKey: "the name of the key is longer than \(KeyName.maximumLength) bytes"
            case .undecodable: "the value cannot be decoded as the type of the key"
            case .unencodable: "the value cannot be encoded"
            case .newerSchema(let version):
                "the value is of version \(version) of its type, which the key does not know"
            }
        }
    }

    /// The operation that failed.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case capabilities, read, set, remove, batch, keys, changes, lease, logIn
    }
}

extension AsyncKVStoreError: CustomStringConvertible {
    /// One line: `set "name" at http://10.0.0.1:2379, request 7f-3: unavailable: etcdserver: no leader`.
    public var description: String {
        var text = operation.rawValue
        if let key { text += " \(KeyName(key))" }
        if let endpoint { text += " at \(endpoint)" }
        if let requestID { text += ", request \(requestID)" }
        text += ": \(code)"
        if let detail { text += ": \(detail)" }
        if let underlying { text += ": \(underlying)" }
        return text
    }
}

extension AsyncKVStoreError {
    /// Classifies a failure of a local store, or of the encoding of a value.
    init(_ error: any Error, _ operation: Operation, key: String? = nil) {
        guard let error = error as? KVStoreError else {
            self.init(.unavailable, operation, key: key, underlying: error)
            return
        }
        let code: Code =
            switch error.code {
            case .undecodable: .undecodable
            case .unencodable: .unencodable
            case .invalidKey: .invalidKey
            case .valueTooLarge, .storeTooLarge: .tooLarge
            case .conflict: .conflict
            case .durabilityUnknown: .durabilityUnknown
            case .unknownOutcome: .unknownOutcome
            case .readOnly: .refused
            default: error.code.newerVersion.map { .newerSchema(version: $0) } ?? .unavailable
            }
        self.init(code, operation, key: error.key ?? key, underlying: error)
    }

    /// The error of a batch that a call makes for one key, as an error of that call.
    func of(_ call: Operation, _ name: String) -> AsyncKVStoreError {
        guard operation == .batch else { return self }
        var error = self
        error.operation = call
        error.key = name
        return error
    }
}
