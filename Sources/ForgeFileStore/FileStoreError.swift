public import ForgeFileSystem

/// A call of a file store that failed: what was tried, on which key, and why.
public struct FileStoreError: Error, Sendable {
    /// What was tried.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case save, load, info, list, delete, deleteDirectory, deleteAll, createDirectory, copy, move, url, open
    }

    /// Why it failed.
    public enum Code: Hashable, Sendable {
        /// There is no such file or directory.
        case notFound

        /// There is a file already, and it was not to be replaced.
        case alreadyExists

        /// The key is none; nothing was tried.
        case invalidKey(InvalidKey.Reason)

        /// A directory stands where a file was asked for.
        case isDirectory

        /// A file stands where a directory was asked for, or where the key needs one.
        case notDirectory

        /// The disk, or the quota, is full.
        case noSpace

        /// The process has not the right to do this, or the disk can only be read.
        case notPermitted

        /// The store could not do it just now; whether the file exists is not known.
        case unavailable(Unavailability)

        /// The file is larger than the store may load, or than the file system can hold.
        case tooLarge

        /// The key leads to something that no store creates; it is not changed.
        case unsafe(UnsafeFile)

        /// The directory to delete holds something that no store put there, which the underlying error names; nothing was
        /// deleted.
        case foreignContent

        /// The file to copy or move cannot be taken.
        case invalidSource(SourceProblem)

        /// The file does not hold what it was asked to be decoded as.
        case undecodable

        /// The value cannot be encoded.
        case unencodable

        /// The change is made and can be seen, but a power cut may undo it: the last flush failed.
        case durabilityUnknown

        /// The store has no such call.
        case unsupported
    }

    /// Why a file is not used.
    public enum UnsafeFile: String, Hashable, Sendable {
        /// The key leads over a symbolic link.
        case symbolicLink = "a symbolic link"

        /// The file has another name too, through which others could read or change it.
        case hardLink = "a hard link"

        /// A FIFO, a socket or a device.
        case notRegular = "not a regular file"

        /// The key leads into the root of another store.
        case anotherStore = "in the directory of another store"
    }

    /// Why a file outside the store was not copied or moved.
    public enum SourceProblem: String, Hashable, Sendable {
        case notFound = "does not exist"
        case notFileURL = "is not a path of this machine"
        case notRegular = "is not a regular file"
        case symbolicLink = "is a symbolic link"
        case unreadable = "cannot be read"
        /// Another program changed, replaced or removed it while it was moved. What has its name now keeps it; the store
        /// may hold a copy of what the source was before if its device is not the store's.
        case changed = "changed meanwhile"
        /// Its name cannot be taken away, or, when the store already holds a copy, the file cannot be removed.
        case notRemoved = "cannot be removed"
        /// The move failed and the source, or what another program put in its place, could not be renamed back, such as
        /// when the name is taken again. It stays at the path of the underlying error, which no store removes.
        case notRestored = "could not be given its name back"
    }

    /// Why it failed.
    public var code: Code

    /// What was tried.
    public var operation: Operation

    /// The key as it was given; empty for the whole store.
    public var key: String

    /// The error that stands behind this one.
    public var underlying: (any Error)?

    /// An error from its parts.
    public init(_ code: Code, _ operation: Operation, key: String = "", underlying: (any Error)? = nil) {
        self.code = code
        self.operation = operation
        self.key = key
        self.underlying = underlying
    }
}

extension FileStoreError: CustomStringConvertible {
    /// One line: operation, key, reason and, if there is one, the error behind it.
    public var description: String {
        var text = operation.rawValue
        if !key.isEmpty { text += " \(POSIXPath(String(key.prefix(200))))" }
        text += ": \(code)"
        // What an invalid key or an undecodable file says of itself would repeat the key, or show content.
        if let cause = underlying as? FileSystemError { text += " (\(cause))" }
        if let cause = underlying as? DecodingError { text += " (\(cause.place))" }
        return text
    }
}

extension FileStoreError.Code: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notFound: "not found"
        case .alreadyExists: "exists already"
        case .invalidKey(let reason): "the key \(reason.rawValue)"
        case .isDirectory: "is a directory"
        case .notDirectory: "not a directory"
        case .noSpace: "no space left"
        case .notPermitted: "not permitted"
        case .unavailable(let reason): "unavailable: \(reason)"
        case .tooLarge: "too large"
        case .unsafe(let reason): "refused: \(reason.rawValue)"
        case .foreignContent: "holds what is not the store's"
        case .invalidSource(let problem): "the source \(problem.rawValue)"
        case .undecodable: "cannot be decoded"
        case .unencodable: "cannot be encoded"
        case .durabilityUnknown: "stored, but a power cut may undo it"
        case .unsupported: "not supported by this store"
        }
    }
}

extension DecodingError {
    /// Where in a file the decoding failed, without what stands there.
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
