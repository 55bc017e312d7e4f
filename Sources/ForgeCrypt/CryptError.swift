public import ForgeFileSystem

/// An operation on secrets that failed: what was tried, on which secret or file, and why.
///
/// It never holds a value, a part of one, or a key of encryption, however it is printed. What an encoder or decoder
/// threw is reduced to its kind, because its text may quote the value.
public struct CryptError: Error, Sendable {
    /// Why an operation failed.
    public enum Code: Hashable, Sendable {
        /// The name of the secret is empty, longer than 1,024 bytes of UTF-8, or holds a NUL.
        case invalidKey

        /// The value could not be encoded.
        case unencodable

        /// The value is not of the type asked for; it is still stored.
        case undecodable

        /// The value is longer than 16 MiB when encoded, or the store would grow past its limit.
        case tooLarge

        /// The vault was sealed under another key, or its header was changed so that no key fits.
        case wrongKey

        /// The vault, or the key file, was altered or damaged, or is something else altogether.
        case tampered

        /// The vault, or the key file, ends before it should.
        case truncated

        /// The vault was written by a later version of this library.
        case newerFormat

        /// Other users may read, write or replace the file, a key file belongs to another user, or the file is not
        /// regular.
        case insecureFile

        /// The vault or key file has a name that stores reserve: one that begins with `#`.
        case reservedName

        /// The key of encryption is too short, or its text is none.
        case invalidKeyMaterial

        /// The store cannot be used just now; says nothing of whether there is a value.
        case unavailable(Unavailability)

        /// The change was made and can be read, but a power cut may undo it. Doing it again is safe.
        case durabilityUnknown

        /// The store does not have this operation.
        case unsupported

        /// The operating system refused, with this `OSStatus`.
        case system(status: Int32)
    }

    /// What was tried.
    public enum Operation: String, Hashable, Sendable {
        case get, set, delete, contains, deleteAll, keys
        case open, verify
        case loadKey, createKey, importKey
    }

    /// Why it failed.
    public var code: Code

    /// What was tried.
    public var operation: Operation

    /// The name of the secret, if it was about one.
    public var key: String?

    /// The vault or key file, if it was about one.
    public var path: POSIXPath?

    /// What exactly is wrong, in words that are fixed in this library; nil where the code says it all.
    public var detail: String?

    /// The error behind this one, such as a `FileSystemError`.
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
    public var isOutOfSpace: Bool { (underlying as? FileSystemError)?.isOutOfSpace ?? false }
}

extension CryptError: CustomStringConvertible {
    public var description: String {
        var text = operation.rawValue
        // POSIXPath shows control characters as escapes, which keeps this one line.
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
        case .reservedName: "names that begin with # are reserved"
        case .invalidKeyMaterial: "not a usable key"
        case .unavailable(let reason): "unavailable (\(reason))"
        case .durabilityUnknown: "done, but a power cut may undo it"
        case .unsupported: "not supported by this store"
        case .system(let status): "status \(KeychainStatus(rawValue: status))"
        }
    }
}

extension CryptError {
    /// The error of a file operation, in the terms of secrets.
    init(_ error: FileSystemError, _ operation: Operation, path: POSIXPath) {
        let reason: Unavailability = error.isLocked ? .locked : .inputOutput
        let code: Code = error.isEffectVisible ? .durabilityUnknown : .unavailable(reason)
        self.init(code, operation, path: path, underlying: error)
    }

    /// The same error for the secret that the caller asked for.
    func about(_ operation: Operation, key: String?) -> CryptError {
        var error = self
        error.operation = operation
        error.key = key
        return error
    }
}
