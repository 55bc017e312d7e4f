public import ForgeFileSystem

/// A failed operation on secrets: the operation, the secret or file, and the reason.
///
/// It never contains a value, a part of one, or an encryption key, however it is printed. The error of an encoder or
/// decoder is reduced to its kind, because its text may quote the value.
public struct CryptError: Error, Sendable {
    /// The reason for the failure.
    public enum Code: Hashable, Sendable {
        /// The name of the secret is empty, longer than 1,024 bytes of UTF-8, or contains a NUL.
        case invalidKey

        /// The value could not be encoded.
        case unencodable

        /// The value is not of the requested type; it is still stored.
        case undecodable

        /// The encoded value is longer than 16 MiB, or the store would exceed its limit.
        case tooLarge

        /// The vault was sealed under another key, or its header was changed so that no key matches.
        case wrongKey

        /// The vault or key file was altered or damaged, or is not such a file.
        case tampered

        /// The vault or key file is truncated.
        case truncated

        /// The vault was written by a later version of this library.
        case newerFormat

        /// Other users may read, write or replace the file, a key file or the directory belongs to another user, or the
        /// file is not regular.
        case insecureFile

        /// The name of the vault or key file is reserved for stores: it begins with `#`, or is `log`.
        case reservedName

        /// The encryption key is too short, or its text is invalid.
        case invalidKeyMaterial

        /// The device or a quota is full; nothing changed. ``CryptError/isOutOfSpace`` is true.
        case noSpace

        /// The store cannot be used at present, such as on a failing device, or cannot be changed, such as on a
        /// read-only one; whether there is a value is unknown, unless reads succeed.
        case unavailable(Unavailability)

        /// The change is visible, but a power cut may undo it. Repeating it is safe.
        case durabilityUnknown

        /// The store does not support this operation.
        case unsupported

        /// The operating system failed with this `OSStatus`.
        case system(status: Int32)
    }

    /// The operation that failed. `createIfAbsent` and `setRawValue` are `.set`, `rawValue` is `.get`, `deleteValue` is
    /// `.delete`.
    public enum Operation: String, Hashable, Sendable {
        case get, set, delete, contains, deleteAll, keys
        case open, verify
        case loadKey, createKey, importKey
    }

    /// The reason for the failure.
    public var code: Code

    /// The operation that failed.
    public var operation: Operation

    /// The name of the secret, if the operation had one.
    public var key: String?

    /// The vault or key file, if the operation had one.
    public var path: POSIXPath?

    /// A more precise description, from a fixed set of texts; nil if the code is sufficient.
    public var detail: String?

    /// The underlying error, such as a `FileSystemError`.
    public var underlying: (any Error)?

    /// Creates an error.
    public init(
        _ code: Code, _ operation: Operation, key: String? = nil, path: POSIXPath? = nil, detail: String? = nil,
        underlying: (any Error)? = nil
    ) {
        self.code = code
        self.operation = operation
        self.key = key
        self.path = path
        self.detail = detail
        self.underlying = underlying
    }

    /// Whether the operation failed because the device or a quota is full.
    public var isOutOfSpace: Bool { code == .noSpace || (underlying as? FileSystemError)?.isOutOfSpace ?? false }

    /// Whether another writer of vaults in the directory holds the lock.
    public var isInUse: Bool { if case .unavailable(let reason) = code { reason.isInUse } else { false } }
}

extension CryptError: CustomStringConvertible {
    public var description: String {
        var text = operation.rawValue
        // POSIXPath escapes control characters, so that the text stays on one line.
        if let key { text += " \"\(POSIXPath(String(key.prefix(80))))\"" }
        if let path { text += " in \(path)" }
        text += ": \(code)"
        if let detail { text += ": \(detail)" }
        if let underlying { text += ": \(underlying)" }
        return text
    }
}

extension CryptError.Code: CustomStringConvertible {
    public var description: String {
        switch self {
        case .invalidKey: "the name is not valid"
        case .unencodable: "the value cannot be encoded"
        case .undecodable: "the value is not of the type asked for"
        case .tooLarge: "too large"
        case .wrongKey: "sealed under another key, or its header was changed"
        case .tampered: "altered or damaged"
        case .truncated: "cut short"
        case .newerFormat: "written by a later version"
        case .insecureFile: "not a private file"
        case .reservedName: "names that begin with #, and the name log, are reserved"
        case .invalidKeyMaterial: "not a usable key"
        case .noSpace: "the device or a quota is full"
        case .unavailable(let reason): "unavailable (\(reason))"
        case .durabilityUnknown: "done, but a power cut may undo it"
        case .unsupported: "not supported by this store"
        case .system(let status): "status \(KeychainStatus(rawValue: status))"
        }
    }
}

extension CryptError {
    /// Converts the error of a file operation.
    init(_ error: FileSystemError, _ operation: Operation, path: POSIXPath) {
        let code: Code =
            if error.isEffectVisible {
                .durabilityUnknown
            } else if error.isOutOfSpace {
                .noSpace
            } else {
                .unavailable(error.isLocked ? .locked : .inputOutput)
            }
        self.init(code, operation, path: path, underlying: error)
    }

    /// The same error with the caller's operation and secret.
    func about(_ operation: Operation, key: String?) -> CryptError {
        var error = self
        error.operation = operation
        error.key = key
        return error
    }
}
