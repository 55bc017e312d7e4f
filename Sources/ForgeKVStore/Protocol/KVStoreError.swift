import ForgeCoding
public import ForgeFileSystem
import SystemPackage

/// A failed call of a key-value store, on this machine or on a server: the operation, key, store and reason.
///
/// It never contains a stored value, or one to be stored, nor a password or token.
public struct KVStoreError: Error, Sendable {
    /// The reason for the failure.
    public var code: Code

    /// The operation that failed.
    public var operation: Operation

    /// The name of the key, if the call concerns a key.
    public var key: String?

    /// The path of the store, or the name of its suite; nil for a store in memory or on a server.
    public var store: String?

    /// The server that was asked, as `scheme://host:port`; nil for a store of this machine, or if none was reached.
    public var endpoint: String?

    /// The identifier of the request in the logs of a store on servers.
    public var requestID: String?

    /// More about the reason, such as the server's own words, without values.
    public var detail: String?

    /// The underlying error, without values.
    public var underlying: (any Error)?

    /// Creates an error.
    ///
    /// Of an underlying error that may contain a value, such as one of the app, only the type is kept.
    public init(
        _ code: Code, _ operation: Operation, key: String? = nil, store: String? = nil, endpoint: String? = nil,
        requestID: String? = nil, detail: String? = nil, underlying: (any Error)? = nil
    ) {
        self.code = code
        self.operation = operation
        self.key = key
        self.store = store
        self.endpoint = endpoint
        self.requestID = requestID
        self.detail = detail
        self.underlying = underlying.map { withoutValues($0, code) }
    }

    /// Whether the call failed because the device or a quota is full.
    public var isOutOfSpace: Bool { (underlying as? FileSystemError)?.isOutOfSpace ?? false }

    /// Whether another process, or another store object, holds the store.
    public var isInUse: Bool { code.unavailability?.isInUse ?? false }
}

extension KVStoreError {
    /// The reason for a failure. Codes may be added, so a `switch` needs a default.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: Hashable, Sendable {
            case undecodable, unencodable, damaged, invalidKey, valueTooLarge, durabilityUnknown, conflict, readOnly
            case noStore, unknownOutcome, storeTooLarge
            case timeout, notYetVisible, refused, tooLarge, leaseLost, cancelled
            case newerSchema(UInt32)
            case unavailable(Unavailability)
            case unknownFormat(UInt32)
        }

        private let kind: Kind

        /// The value cannot be decoded as the type of the key. It is kept.
        public static let undecodable = Code(kind: .undecodable)

        /// The value cannot be encoded. The old value is kept.
        public static let unencodable = Code(kind: .unencodable)

        /// The data on disk is damaged. It is left unchanged, or set aside.
        public static let damaged = Code(kind: .damaged)

        /// The name of the key is longer than ``KVKey/maximumNameLength``.
        public static let invalidKey = Code(kind: .invalidKey)

        /// The encoded value exceeds the store's limit. The old value is kept.
        public static let valueTooLarge = Code(kind: .valueTooLarge)

        /// The store would exceed the size that its system can keep, as user defaults on Apple's platforms can. Nothing
        /// was changed.
        public static let storeTooLarge = Code(kind: .storeTooLarge)

        /// The batch, or the page of a list, exceeds a limit of the store. Nothing was changed.
        public static let tooLarge = Code(kind: .tooLarge)

        /// A requirement does not hold because of a concurrent change. Nothing was changed.
        public static let conflict = Code(kind: .conflict)

        /// The write is visible, but a power cut may undo it.
        public static let durabilityUnknown = Code(kind: .durabilityUnknown)

        /// The write was sent to a server; whether it was or will be applied, or when it becomes visible, is unknown.
        public static let unknownOutcome = Code(kind: .unknownOutcome)

        /// The write is applied, but a ``MirroredKVStore`` does not show it yet.
        public static let notYetVisible = Code(kind: .notYetVisible)

        /// The deadline has passed. Nothing was changed.
        public static let timeout = Code(kind: .timeout)

        /// The task was cancelled. Nothing was changed.
        public static let cancelled = Code(kind: .cancelled)

        /// The store is read-only. Nothing was changed.
        public static let readOnly = Code(kind: .readOnly)

        /// The store does not support or permit the call. Nothing was changed.
        public static let refused = Code(kind: .refused)

        /// The lease has ended: its values are absent, and writes under it change nothing.
        public static let leaseLost = Code(kind: .leaseLost)

        /// There is no store at that place, and the call does not create one.
        public static let noStore = Code(kind: .noStore)

        /// The value has a later schema version than the key. It is kept.
        public static func newerSchema(version: UInt32) -> Code { Code(kind: .newerSchema(version)) }

        /// The store cannot be read or written at present; its content is unknown.
        public static func unavailable(_ reason: Unavailability) -> Code { Code(kind: .unavailable(reason)) }

        /// The store has a later format version. It is left unchanged.
        public static func unknownFormat(version: UInt32) -> Code { Code(kind: .unknownFormat(version)) }

        /// Why the store is unavailable, if this is that code.
        public var unavailability: Unavailability? {
            guard case .unavailable(let reason) = kind else { return nil }
            return reason
        }

        /// The version of the value, if this is `.newerSchema(version:)`.
        public var newerVersion: UInt32? {
            guard case .newerSchema(let version) = kind else { return nil }
            return version
        }

        public var description: String {
            switch kind {
            case .undecodable: "the value cannot be decoded as the type of the key"
            case .unencodable: "the value cannot be encoded"
            case .damaged: "damaged"
            case .invalidKey: "the name of the key is longer than \(KeyName.maximumLength) bytes"
            case .valueTooLarge: "the value is too large"
            case .storeTooLarge: "the store would be larger than its system can keep"
            case .conflict: "changed concurrently"
            case .durabilityUnknown: "written, but a power cut may undo it"
            case .readOnly: "the store is read-only"
            case .unknownOutcome: "sent, and whether it was or will be applied is unknown"
            case .notYetVisible: "applied, but the mirror does not show it yet"
            case .timeout: "the deadline has passed; nothing was changed"
            case .cancelled: "cancelled"
            case .refused: "refused"
            case .tooLarge: "too large"
            case .leaseLost: "the lease has ended"
            case .noStore: "there is no store"
            case .newerSchema(let version):
                "the value is of version \(version) of its type, which the key does not know"
            case .unavailable(let reason): "unavailable: \(reason)"
            case .unknownFormat(let version): "unknown format version \(version)"
            }
        }
    }

    /// The operation that failed.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case open, get, read, set, remove, removeAll, contains, keys, synchronize, compact, close, setAside, batch,
            snapshot
        case `import`, export, migrate, changes
        case capabilities, lease, logIn
    }
}

extension KVStoreError: CustomStringConvertible {
    /// One line: `set "name" in /var/app/settings: unavailable: file system error: write: No space left (ENOSPC)`,
    /// or `set "name" at http://10.0.0.1:2379, request 7f-3: unavailable: server error: etcdserver: no leader`.
    public var description: String {
        var text = operation.rawValue
        if let key { text += " \(KeyName(key))" }
        if let store { text += " in \(POSIXPath(store))" }
        if let endpoint { text += " at \(endpoint)" }
        if let requestID { text += ", request \(requestID)" }
        // An import has no requested type.
        text += operation == .import && code == .undecodable ? ": cannot be decoded" : ": \(code)"
        if let detail { text += ": \(detail)" }
        // That a lock is taken says no more than the code.
        if let underlying, !isInUse { text += ": \(underlying)" }
        return text
    }
}

extension KVStoreError {
    /// The error of a store on this machine, or of another cause, as an error of an asynchronous call.
    init(of error: any Error, _ operation: Operation, key: String? = nil) {
        switch error {
        case let error as KVStoreError:
            self = error
            if self.key == nil { self.key = key }
        case is CancellationError: self.init(.cancelled, operation, key: key)
        default: self.init(.unavailable(.inputOutput), operation, key: key, underlying: error)
        }
    }

    /// The error of a call that another one makes, as an error of that other one.
    func of(_ call: Operation) -> KVStoreError {
        var error = self
        error.operation = call
        return error
    }

    /// The error of a store about a value, with the path of the store on disk, which may be below layers.
    func of(store: any KVStoring) -> KVStoreError {
        guard self.store == nil else { return self }
        var error = self
        error.store = FileKVStore.below(store)?.engine.name
        return error
    }

    /// The error of a batch that a call makes for one key, as an error of that call.
    func of(_ call: Operation, _ name: String) -> KVStoreError {
        guard operation == .batch else { return self }
        var error = self
        error.operation = call
        error.key = name
        return error
    }

    /// Classifies a failure to decode a value.
    init(
        decoding error: any Error, _ operation: Operation, key: String, store: String? = nil
    ) {
        if let newer = error as? NewerSchema {
            self.init(.newerSchema(version: newer.version), operation, key: key, store: store)
        } else {
            self.init(.undecodable, operation, key: key, store: store, underlying: error)
        }
    }

    /// Classifies a failure of the file system.
    init(_ error: FileSystemError, _ operation: Operation, key: String? = nil, store: String?) {
        let reason: Unavailability = error.isLocked ? .locked : .inputOutput
        let isPageFull = error.errno == .noLocks && error.path == .sharedName
        let detail = isPageFull ? "\(SharedPageContent.slotCount) other processes have the store open" : nil
        self.init(.unavailable(reason), operation, key: key, store: store, detail: detail, underlying: error)
    }
}

/// Errors of encoding and decoding may contain or quote the value, and so may those of the app.
private func withoutValues(_ error: any Error, _ code: KVStoreError.Code) -> any Error {
    switch error {
    case is KVStoreError, is FileSystemError, is CodingFailure, is CancellationError,
        is ErrorType, is WritingCode:
        error
    case is EncodingError: CodingFailure(.encode, describing: error)
    case is DecodingError: CodingFailure(.decode, describing: error)
    case _ where code == .unencodable: CodingFailure(.encode, describing: error)
    case _ where code == .undecodable: CodingFailure(.decode, describing: error)
    default: ErrorType(name: "\(type(of: error))")
    }
}

/// The type of an underlying error whose content may contain a value.
private struct ErrorType: Error, Hashable, CustomStringConvertible {
    var name: String

    var description: String { "an error of the type \(name)" }
}

/// The underlying error of a write that was given up because its value was changed during each run of code of the app.
struct WritingCode: Error, Hashable, CustomStringConvertible {
    enum Kind {
        /// The closure of an update.
        case closure

        /// The decoding of a value that is to be replaced.
        case decoding
    }

    var kind: Kind
    var runCount: Int

    var description: String {
        let code = kind == .closure ? "the closure" : "`init(from:)`"
        return "the value has changed during \(runCount) runs of \(code), which must not write the key itself"
    }
}

/// A problem that a store reports although the call that detected it did not fail.
public indirect enum KVStoreIssue: Sendable {
    /// Damaged bytes were found in the log when it was opened, or an undecodable value was overwritten. The bytes were
    /// copied to a file of their own, unless the store was opened read-only; everything else remains readable.
    case damage(KVDamageReport)

    /// Records are missing at this byte of the log, though no byte there is damaged.
    case missingRecords(offset: Int64)

    /// The log ended in an incomplete record (a torn write) and was truncated to the last complete record.
    case tornTail(sizeInBytes: Int64)

    /// The log could not be repaired. Reads work; every write throws `.unavailable`, with this error underlying.
    case readOnly(KVStoreError)

    /// A value exists but cannot be decoded as the key's type, so `get` returned nil. Reported once per stored value.
    case undecodable(KVStoreError)

    /// Compaction of the log failed. No data is lost; the store tries again later.
    case compactionFailed(KVStoreError)

    /// A shared store could not read records of other processes, so `get` and `contains` returned older values; or it
    /// could not publish a write of this process. The next call tries again. A failed read is not reported again until
    /// a read has succeeded.
    case sharing(KVStoreError)

    /// An assignment to a ``Setting`` failed, so the old value is kept.
    case assignment(key: String, any Error)
}

extension KVStoreIssue: CustomStringConvertible {
    public var description: String {
        switch self {
        case .damage(let report): "damage: \(report)"
        case .missingRecords(let offset): "records are missing at byte \(offset) of the log"
        case .tornTail(let size): "the log ended in \(size) bytes of an unfinished record, now removed"
        case .readOnly(let error): "read-only: \(error)"
        case .undecodable(let error): "undecodable: \(error)"
        case .compactionFailed(let error): "compaction failed: \(error)"
        case .sharing(let error): "sharing with other processes: \(error)"
        case .assignment(let key, let error): "assignment to \(KeyName(key)): \(error)"
        }
    }
}

/// Unreadable bytes of a store.
///
/// They are set aside unchanged in a separate file beside the log; the owner may inspect, keep or delete it. A store
/// that is opened with ``FileKVStore/Access/readOnly`` leaves them in the log.
public struct KVDamageReport: Sendable {
    /// The kind of the bytes.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Records in the middle of the log that were damaged after they had reached the device.
        case records

        /// The end of the log, not known to have reached the device, with intact records after a bad one.
        case tail

        /// The header of the log; the records after it were read nevertheless.
        case header

        /// A whole log that could not be read.
        case log

        /// A value that could not be decoded as the type that replaced it. The file begins with a prefix of eight bytes
        /// and the name.
        case value
    }

    /// The kind of the bytes.
    public var kind: Kind

    /// The path of the file that contains them: the log, unless ``isSetAside``.
    public var file: String

    /// Their offset in the log.
    public var offset: Int64

    /// Their number.
    public var sizeInBytes: Int64

    /// The name of the key, for a ``Kind/value``.
    public var key: String?

    /// Whether they were copied or moved out of the log; false if the store was opened read-only.
    public var isSetAside = true
}

/// Names and paths are compared by their bytes.
extension KVDamageReport: Hashable, ComparedByBytes {
    struct Identity: Hashable {
        var kind: Kind
        var names: [KeyName?]
        var numbers: [Int64]
        var isSetAside: Bool
    }

    var identity: Identity {
        Identity(
            kind: kind, names: [KeyName(file), key.map(KeyName.init)], numbers: [offset, sizeInBytes],
            isSetAside: isSetAside)
    }
}

extension KVDamageReport: CustomStringConvertible {
    public var description: String {
        let place = key.map { "of \(KeyName($0))" } ?? "at byte \(offset)"
        return "\(kind.rawValue) \(place), \(sizeInBytes) bytes, \(isSetAside ? "set aside" : "left") in \(file)"
    }
}
