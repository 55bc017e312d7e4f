public import SystemPackage

/// A failed file-system operation: the operation, its path, and the error number of the system.
public struct FileSystemError: Error, Sendable {
    /// The operation that failed.
    public var operation: FileSystemOperation

    /// The error number. ``SystemFileSystem`` passes on the kernel's number unchanged.
    public var errno: Errno

    /// The path argument; nil for an operation on a descriptor only.
    public var path: POSIXPath?

    /// The second path of a rename or a link.
    public var destination: POSIXPath?

    /// Whether the operation nevertheless took effect: its result is visible, but a power cut may undo it.
    public var isEffectVisible = false

    /// The underlying error, if something other than the system failed the operation.
    public var underlying: (any Error)?

    /// Creates an error.
    public init(
        _ operation: FileSystemOperation, _ errno: Errno, path: POSIXPath? = nil, destination: POSIXPath? = nil,
        underlying: (any Error)? = nil
    ) {
        self.operation = operation
        self.errno = errno
        self.path = path
        self.destination = destination
        self.underlying = underlying
    }

    /// Whether the device or a quota is full.
    public var isOutOfSpace: Bool { errno == .noSpace || errno == .diskQuotaExceeded }

    /// The error with a path, unless it has one: the error of a call with a descriptor has none.
    package func named(_ path: POSIXPath) -> FileSystemError {
        var named = self
        if named.path == nil { named.path = path }
        return named
    }
}

extension FileSystemError: CustomStringConvertible {
    public var description: String {
        var text = operation.rawValue
        if let path { text += " \(path)" }
        if let destination { text += " to \(destination)" }
        text += ": \(errno.description) (\(errno.name))"
        if let underlying { text += ": \(underlying)" }
        return text
    }
}

extension Errno {
    /// The symbol of the error number, such as `ENOENT`; `errno 999` for a number without a symbol here.
    public var name: String { Self.names[self] ?? "errno \(rawValue)" }

    private static let names: [Errno: String] = [
        .notPermitted: "EPERM", .noSuchFileOrDirectory: "ENOENT", .interrupted: "EINTR", .ioError: "EIO",
        .noSuchAddressOrDevice: "ENXIO", .badFileDescriptor: "EBADF", .noMemory: "ENOMEM",
        .permissionDenied: "EACCES", .resourceBusy: "EBUSY", .fileExists: "EEXIST", .improperLink: "EXDEV",
        .operationNotSupportedByDevice: "ENODEV", .notDirectory: "ENOTDIR", .isDirectory: "EISDIR",
        .invalidArgument: "EINVAL", .tooManyOpenFilesInSystem: "ENFILE", .tooManyOpenFiles: "EMFILE",
        .textFileBusy: "ETXTBSY", .fileTooLarge: "EFBIG", .noSpace: "ENOSPC", .illegalSeek: "ESPIPE",
        .readOnlyFileSystem: "EROFS", .tooManyLinks: "EMLINK", .brokenPipe: "EPIPE",
        .resourceTemporarilyUnavailable: "EAGAIN", .noFunction: "ENOSYS", .directoryNotEmpty: "ENOTEMPTY",
        .tooManySymbolicLinkLevels: "ELOOP", .fileNameTooLong: "ENAMETOOLONG", .overflow: "EOVERFLOW",
        .notSupported: "ENOTSUP", .diskQuotaExceeded: "EDQUOT", .staleNFSFileHandle: "ESTALE",
        .illegalByteSequence: "EILSEQ", .argListTooLong: "E2BIG", .outOfRange: "ERANGE",
    ]
}

/// The underlying error of the `EPERM` for a file whose content is protected while the device is locked.
package struct ProtectedDataUnavailable: Error, Hashable, CustomStringConvertible {
    package var description: String { "the device is locked" }

    package init() {}
}

extension FileSystemError {
    /// Whether the operation failed because the device is locked, or has not been unlocked since it started: the file
    /// exists, and its content is inaccessible until the device is unlocked.
    ///
    /// On iOS, tvOS, watchOS and visionOS, access to the content of a protected file fails with `EPERM`. A sandbox uses
    /// the same error for files outside the app's directories; inside them it means the lock. On macOS (denied access
    /// to private folders, immutable files) and Linux, `EPERM` alone does not mean a locked device.
    public var isLocked: Bool { isLocked(on: .current) }

    /// Whether the operation failed because the device is locked, on a given platform.
    func isLocked(on platform: ProtectionPlatform) -> Bool {
        guard errno == .notPermitted else { return false }
        return underlying is ProtectedDataUnavailable
            || platform.protectsFiles && FileSystemOperation.failingWhileLocked.contains(operation)
    }
}

/// The operations of a file system, as named in errors, fault plans and operation logs.
public enum FileSystemOperation: String, CaseIterable, Sendable {
    case open, close, duplicate
    case read, write, copyRange, seek, truncate, allocate, synchronize
    case map, store, writeBack
    case status, setPermissions, setOwner, setTimes
    case listExtendedAttributes, readExtendedAttribute, setExtendedAttribute
    case createDirectory, createNode, removeDirectory, unlink, rename, link
    case createSymbolicLink, readSymbolicLink
    case list, lock, watch
    /// Converting a URL to a path; fails before any other operation.
    case resolve
}

extension FileSystemOperation: CustomStringConvertible {
    public var description: String { rawValue }
}

extension FileSystemOperation {
    /// The operations that fail with `EPERM` on a locked device (Data Protection, Apple Platform Security): those that
    /// access the content of a file. Names and attributes are always accessible.
    fileprivate static let failingWhileLocked: Set<FileSystemOperation> = [
        .open, .read, .write, .truncate, .allocate, .map,
    ]
}

/// The platforms by what `EPERM` means there.
enum ProtectionPlatform: CaseIterable {
    case iOS, tvOS, watchOS, visionOS, macOS, linux

    /// Whether files are inaccessible while the device is locked.
    var protectsFiles: Bool { self != .macOS && self != .linux }
}

/// The reason why a store cannot be read or written at present; never the same as an absent value.
public enum Unavailability: Hashable, Sendable {
    /// The device is locked, or has not been unlocked since it started, and the data is protected.
    case locked

    /// Another process, or another store object, holds the store.
    case inUse(processID: Int32?)

    /// The file system failed; see the underlying error.
    case inputOutput

    /// An earlier flush failed, so no write is acknowledged until the store is opened again.
    case poisoned

    /// The process was forked while the store was open; the store belongs to the parent.
    case forked

    /// The store was closed. Opening it again creates a new object.
    case closed

    /// The server of the store cannot be reached, or fails; see the underlying error.
    case server

    /// Whether this is ``inUse(processID:)``, of whatever process.
    public var isInUse: Bool { if case .inUse = self { true } else { false } }
}

extension Unavailability: CustomStringConvertible {
    public var description: String {
        switch self {
        case .locked: "locked"
        case .inUse(let processID?): "in use by process \(processID)"
        case .inUse: "in use"
        case .server: "server error"
        case .inputOutput: "file system error"
        case .forked: "opened before the process was forked; it belongs to the parent"
        case .closed: "closed"
        case .poisoned: "an earlier flush failed; release all objects for the store and open it again"
        }
    }
}
