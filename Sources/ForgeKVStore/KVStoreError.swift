import ForgeCoding
public import ForgeFileSystem

/// A call of a key-value store that failed: what was tried, on which key of which store, and why.
///
/// It never holds a value that was stored or was to be stored.
public struct KVStoreError: Error, Sendable {
    /// Why the call failed.
    public var code: Code

    /// What was tried.
    public var operation: Operation

    /// The name of the key, if the call was about one.
    public var key: String?

    /// Where the store is: its path, or the name of its suite; nil for one that is nowhere.
    public var store: String?

    /// The error that stands behind this one, values left out.
    public var underlying: (any Error)?

    /// An error from its parts.
    public init(
        _ code: Code, _ operation: Operation, key: String? = nil, store: String? = nil,
        underlying: (any Error)? = nil
    ) {
        self.code = code
        self.operation = operation
        self.key = key
        self.store = store
        self.underlying = underlying.map(withoutValues)
    }
}

extension KVStoreError {
    /// Why a call failed. More codes may be added, so a `switch` needs a default.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: Hashable, Sendable {
            case undecodable, unencodable, unsupported, damaged, invalidKey, valueTooLarge, durabilityUnknown, conflict
            case readOnly
            case newerSchema(UInt32)
            case unavailable(Unavailability)
            case unknownFormat(UInt32)
        }

        private let kind: Kind

        /// There is a value, but it cannot be decoded as the type of the key. It is kept.
        public static let undecodable = Code(kind: .undecodable)

        /// The value cannot be encoded. The old value is still there.
        public static let unencodable = Code(kind: .unencodable)

        /// The store cannot do this, or not in this form.
        public static let unsupported = Code(kind: .unsupported)

        /// What is on disk is not what was written. It is left as it is, or set aside.
        public static let damaged = Code(kind: .damaged)

        /// The name of the key is longer than ``KVKey/maximumNameLength``.
        public static let invalidKey = Code(kind: .invalidKey)

        /// The encoded value is longer than the store accepts. The old value is still there.
        public static let valueTooLarge = Code(kind: .valueTooLarge)

        /// Somebody else has changed what the call required to be unchanged. Nothing was changed.
        public static let conflict = Code(kind: .conflict)

        /// What was written can be read, but a power cut may undo it.
        public static let durabilityUnknown = Code(kind: .durabilityUnknown)

        /// The store may be read only. Nothing was changed.
        public static let readOnly = Code(kind: .readOnly)

        /// The value was stored by a later version of its type than the key knows. It is kept.
        public static func newerSchema(version: UInt32) -> Code { Code(kind: .newerSchema(version)) }

        /// The store cannot be read or written just now; this says nothing about what it holds.
        public static func unavailable(_ reason: Unavailability) -> Code { Code(kind: .unavailable(reason)) }

        /// The store was written by a later version of this package. It is left as it is.
        public static func unknownFormat(version: UInt32) -> Code { Code(kind: .unknownFormat(version)) }

        /// Why the store is unavailable, if that is the code.
        public var unavailability: Unavailability? {
            guard case .unavailable(let reason) = kind else { return nil }
            return reason
        }

        public var description: String {
            switch kind {
            case .undecodable: "the value cannot be decoded as the type of the key"
            case .unencodable: "the value cannot be encoded"
            case .unsupported: "not supported by this store"
            case .damaged: "damaged"
            case .invalidKey: "the name of the key is longer than \(KeyName.maximumLength) bytes"
            case .valueTooLarge: "the value is too large"
            case .conflict: "changed by somebody else meanwhile"
            case .durabilityUnknown: "written, but a power cut may undo it"
            case .readOnly: "the store is read-only"
            case .newerSchema(let version):
                "the value is of version \(version) of its type, which the key does not know"
            case .unavailable(let reason): "unavailable: \(reason)"
            case .unknownFormat(let version): "unknown format version \(version)"
            }
        }
    }

    /// What was tried.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case open, get, read, set, remove, removeAll, contains, keys, synchronize, compact, setAside, batch, snapshot
        case `import`, export, migrate
    }
}

extension KVStoreError: CustomStringConvertible {
    /// One line: `set "name" in /var/app/settings: unavailable: input/output failure: write: No space left (ENOSPC)`.
    public var description: String {
        var text = operation.rawValue
        if let key { text += " \(KeyName(key))" }
        if let store { text += " in \(POSIXPath(store))" }
        text += ": \(code)"
        if let underlying { text += ": \(underlying)" }
        return text
    }
}

extension KVStoreError {
    /// What it means that a value could not be decoded.
    init(
        decoding error: any Error, _ operation: Operation, key: String, store: String? = nil
    ) {
        if let newer = error as? NewerSchema {
            self.init(.newerSchema(version: newer.version), operation, key: key, store: store)
        } else {
            self.init(.undecodable, operation, key: key, store: store, underlying: error)
        }
    }

    /// What the file system's failure means for a store.
    init(_ error: FileSystemError, _ operation: Operation, key: String? = nil, store: String?) {
        let reason: Unavailability = error.isLocked ? .locked : .inputOutput
        self.init(.unavailable(reason), operation, key: key, store: store, underlying: error)
    }
}

/// Errors of coding carry the value, or may quote it.
private func withoutValues(_ error: any Error) -> any Error {
    switch error {
    case is KVStoreError, is FileSystemError, is CodingFailure: error
    case is EncodingError: CodingFailure(.encode, describing: error)
    default: CodingFailure(.decode, describing: error)
    }
}
