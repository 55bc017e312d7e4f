public import ForgeFileSystem
import SystemPackage

/// A failed call of a file store: the operation, the key, and the reason.
public struct FileStoreError: Error, Sendable {
    /// The operation that failed.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case save, load, info, list, delete, deleteDirectory, deleteAll, createDirectory, copy, move, export, url
        case open, watch
    }

    /// The reason for the failure.
    public enum Code: Hashable, Sendable {
        /// There is no such file or directory.
        case notFound

        /// A file exists at the key, and the call may not replace it.
        case alreadyExists

        /// The file is missing or does not have the expected revision; see ``SaveCondition/unchanged(_:)``.
        case conflict

        /// The key is invalid; nothing was done.
        case invalidKey(InvalidKey.Reason)

        /// An attribute is invalid, or all attributes are too large; nothing was done.
        case invalidAttribute(AttributeProblem)

        /// The key names a directory, but the operation needs a file.
        case isDirectory

        /// The key names a file, but the operation needs a directory; or a parent of the key is a file.
        case notDirectory

        /// The disk, or the quota, is full.
        case noSpace

        /// The process lacks the permission, or the file system is read-only.
        case notPermitted

        /// The store is unavailable at the moment; it is not known whether the file exists.
        case unavailable(Unavailability)

        /// The file exceeds the store's load limit, or the maximum file size of the file system; or its attributes, set
        /// by another program, exceed 2,048 bytes.
        case tooLarge

        /// The key names an entry that this store did not create, such as a symbolic link; the entry is left unchanged.
        case unsafe(UnsafeFile)

        /// The directory to delete contains an entry that this store did not create, or is a mount point; the
        /// underlying error has the path. Nothing was deleted, unless another program added the entry during the
        /// deletion. Of ``FileStoring/deleteAll()``: a directory is a mount point, and everything else was deleted.
        case foreignContent

        /// The source of a copy or move cannot be used.
        case invalidSource(SourceProblem)

        /// The destination of an export cannot be used.
        case invalidDestination(DestinationProblem)

        /// The file does not contain a value of the requested type, or another program has given it an attribute that
        /// is not UTF-8.
        case undecodable

        /// The value cannot be encoded.
        case unencodable

        /// The change is visible, but a power cut may undo it: the last flush failed.
        case durabilityUnknown

        /// The system's limit of watches, of watched directories or of open files is reached, so that changes cannot be
        /// watched (`fs.inotify.max_user_instances` and `fs.inotify.max_user_watches` on Linux).
        case watchLimit

        /// The store does not support this operation, or the file system no attributes of files.
        case unsupported

        /// The writer was committed or cancelled before, or one of its writes was cancelled.
        case closed

        /// The call has waited for as long as ``FileStoreOptions/deadline`` permits.
        case deadlineExceeded(Awaited)

        /// The change was sent to a server, and the answer is unknown: it may have taken effect, or still do.
        case unknownOutcome
    }

    /// The resource that a call was waiting for at its deadline.
    public enum Awaited: String, Hashable, Sendable {
        /// A thread, because many calls wait for the device of this store. Nothing was done.
        case thread = "a thread, as earlier calls wait for the device"

        /// The device. A change may have been made or not, and may still be made if it had begun.
        case device = "the device"

        /// The lock of a directory, which another process holds; the underlying error has its path. The change was not
        /// made; of a batch, those before it were.
        case directoryLock = "the lock of the directory, which another process holds"
    }

    /// The reason why attributes are not stored, with the name of an attribute; never with its value.
    public enum AttributeProblem: Hashable, Sendable {
        /// The name does not have 1 to 64 bytes of `a`–`z`, `0`–`9`, `-`, `_` and `.`, or does not begin with a letter
        /// or a digit.
        case name(String)

        /// All names and values together have more than 2,048 bytes in UTF-8, or there are more than 50; the name is that
        /// of the largest.
        case tooLarge(String)
    }

    /// The reason why a store refuses to access an entry.
    public enum UnsafeFile: String, Hashable, Sendable {
        /// The key, or one of its parents, is a symbolic link.
        case symbolicLink = "a symbolic link"

        /// A FIFO, a socket or a device.
        case notRegular = "not a regular file"

        /// The key leads into the root of another store, or the root is the directory of a key-value store or of
        /// vaults.
        case anotherStore = "in the directory of another store"
    }

    /// The reason why a file outside the store was not copied or moved.
    public enum SourceProblem: String, Hashable, Sendable {
        case notFound = "does not exist"
        case notFileURL = "is not a path of this machine"
        case notRegular = "is not a regular file"
        case symbolicLink = "is a symbolic link"
        case unreadable = "cannot be read"
        /// The source of a move belongs to a store itself, such as its lock file.
        case storeFile = "is a file that a store keeps for itself"
        /// Another program changed the source during the copy, and nothing was stored; or changed, replaced or removed
        /// it during the move. A file that now has its name is kept. If the move had to copy the source, the store may
        /// contain a copy of its earlier content.
        case changed = "changed meanwhile"
        /// The source cannot be renamed to its private name, or cannot be removed after it was copied into the store.
        case notRemoved = "cannot be removed"
        /// The move failed, and the source, or a file that had replaced it, could not be renamed back, for example
        /// because the name exists again. The file stays at the path in the underlying error; no store removes it.
        case notRestored = "could not be renamed back"
    }

    /// The reason why a file was not exported to a URL.
    public enum DestinationProblem: String, Hashable, Sendable {
        case notFileURL = "is not a path of this machine"
        /// The directory of the destination does not exist.
        case noDirectory = "is not in an existing directory"
        case isDirectory = "is a directory"
        /// A FIFO, a socket or a device is at the destination.
        case notRegular = "is not a regular file"
    }

    /// The reason for the failure.
    public var code: Code

    /// The operation that failed.
    public var operation: Operation

    /// The key as it was given; empty for the whole store.
    public var key: String

    /// The underlying error.
    public var underlying: (any Error)?

    /// Creates an error.
    public init(_ code: Code, _ operation: Operation, key: String = "", underlying: (any Error)? = nil) {
        self.code = code
        self.operation = operation
        self.key = key
        self.underlying = underlying
    }
}

/// A cause whose description has no content of files.
package protocol FileStoreCause: Error, CustomStringConvertible {}

extension FileStoreError: CustomStringConvertible {
    /// One line: operation, key and reason, and the cause if it is a file system error or a decoding error.
    public var description: String {
        var text = operation.rawValue
        if !key.isEmpty { text += " \(POSIXPath(String(key.prefix(200))))" }
        text += ": \(code)"
        // The descriptions of other causes could repeat the key or reveal content.
        if let cause = underlying as? FileSystemError { text += " (\(cause))" }
        if let cause = underlying as? any FileStoreCause { text += " (\(cause))" }
        if let cause = underlying as? DecodingError { text += " (\(cause.place))" }
        return text
    }
}

extension FileStoreError.Code: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notFound: "not found"
        case .alreadyExists: "exists already"
        case .conflict: "was changed meanwhile"
        case .invalidKey(let reason): "the key \(reason.rawValue)"
        case .invalidAttribute(.name(let name)): "no valid name of an attribute: \(POSIXPath(String(name.prefix(80))))"
        case .invalidAttribute(.tooLarge(let name)):
            "more than 2,048 bytes of attributes, of which \(POSIXPath(name)) is the largest"
        case .isDirectory: "is a directory"
        case .notDirectory: "not a directory"
        case .noSpace: "no space left"
        case .notPermitted: "not permitted"
        case .unavailable(let reason): "unavailable: \(reason)"
        case .tooLarge: "too large"
        case .unsafe(let reason): "refused: \(reason.rawValue)"
        case .foreignContent: "contains files of other programs"
        case .invalidSource(let problem): "the source \(problem.rawValue)"
        case .invalidDestination(let problem): "the destination \(problem.rawValue)"
        case .undecodable: "cannot be decoded"
        case .unencodable: "cannot be encoded"
        case .durabilityUnknown: "stored, but a power cut may undo it"
        case .watchLimit: "the limit of watches is reached"
        case .unsupported: "not supported by this store"
        case .closed: "the file was committed or cancelled before"
        case .deadlineExceeded(let awaited): "the deadline passed while it waited for \(awaited.rawValue)"
        case .unknownOutcome: "the outcome is unknown"
        }
    }
}

extension DecodingError {
    /// The reason and the coding path of the failure, without values from the file.
    fileprivate var place: String {
        let (reason, path) =
            switch self {
            case .typeMismatch(_, let context): ("another type", context.codingPath)
            case .valueNotFound(_, let context): ("no value", context.codingPath)
            case .keyNotFound(let key, let context): ("no \(key.stringValue)", context.codingPath)
            case .dataCorrupted(let context): ("damaged", context.codingPath)
            @unknown default: ("undecodable", [])
            }
        let place = path.map(\.stringValue).joined(separator: ".")
        return place.isEmpty ? reason : "\(reason) at \(place)"
    }
}

extension FileStoreError {
    /// Converts the error of a failed file system operation.
    package init(_ error: FileSystemError, _ operation: Operation, key: String) {
        self.init(Code(error, operation), operation, key: key, underlying: error)
    }

    /// Converts the error of opening the root: nothing is known about any key.
    init(opening error: FileSystemError, _ operation: Operation, key: String) {
        let code: Code =
            switch error.errno {
            case _ where error.isLocked: .unavailable(.locked)
            case .permissionDenied, .notPermitted, .readOnlyFileSystem: .notPermitted
            case .noSpace, .diskQuotaExceeded: .noSpace
            case .resourceBusy: .unsafe(.anotherStore)
            default: .unavailable(.inputOutput)
            }
        self.init(code, operation, key: key, underlying: error)
    }
}

extension FileStoreError.Code {
    init(_ error: FileSystemError, _ operation: FileStoreError.Operation) {
        guard !error.isEffectVisible else {
            self = .durabilityUnknown
            return
        }
        guard !error.isLocked else {
            self = .unavailable(.locked)
            return
        }
        self = Self.special(error, operation) ?? Self.codes[error.errno] ?? .unavailable(.inputOutput)
    }

    private static let codes: [Errno: FileStoreError.Code] = [
        .noSuchFileOrDirectory: .notFound,
        .fileExists: .alreadyExists,
        .isDirectory: .isDirectory,
        .notDirectory: .notDirectory,
        .noSpace: .noSpace,
        .diskQuotaExceeded: .noSpace,
        .permissionDenied: .notPermitted,
        .notPermitted: .notPermitted,
        .readOnlyFileSystem: .notPermitted,
        .fileTooLarge: .tooLarge,
        .argListTooLong: .tooLarge,
        .tooManySymbolicLinkLevels: .unsafe(.symbolicLink),
        .noSuchAddressOrDevice: .unsafe(.notRegular),
        .operationNotSupportedByDevice: .unsafe(.notRegular),
        .fileNameTooLong: .invalidKey(.componentTooLong),
    ]

    /// Error numbers that have a special meaning in one operation.
    private static func special(
        _ error: FileSystemError, _ operation: FileStoreError.Operation
    ) -> FileStoreError.Code? {
        switch (error.operation, error.errno, operation) {
        case (.watch, .noSpace, _), (.watch, .tooManyOpenFiles, _), (.watch, .tooManyOpenFilesInSystem, _),
            (.watch, .noMemory, _):
            .watchLimit
        case (.watch, .notSupported, _), (.watch, .noFunction, _): .unsupported
        case (.setExtendedAttribute, .notSupported, _), (.setExtendedAttribute, .noFunction, _): .unsupported
        case (.read, .notSupported, _): .unsafe(.notRegular)
        case (.open, .resourceBusy, _): .unsafe(.anotherStore)
        case (.rename, .canceled, _): .conflict
        case (.write, .badFileDescriptor, .save): .closed
        case (.removeDirectory, .directoryNotEmpty, .deleteDirectory): .foreignContent
        // A file system is mounted there.
        case (.rename, .resourceBusy, .deleteDirectory), (.removeDirectory, .resourceBusy, .deleteDirectory),
            (.rename, .resourceBusy, .deleteAll), (.removeDirectory, .resourceBusy, .deleteAll):
            .foreignContent
        // A directory was required and another file has its name.
        case (_, .fileExists, .createDirectory): .notDirectory
        // Every parent was created, and another program repeatedly removes it.
        case (_, .noSuchFileOrDirectory, .save), (_, .noSuchFileOrDirectory, .createDirectory),
            (_, .noSuchFileOrDirectory, .copy), (_, .noSuchFileOrDirectory, .move):
            .unavailable(.inputOutput)
        default: nil
        }
    }
}
