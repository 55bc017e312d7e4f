/// The error of a failed call of a ``Storage``.
///
/// The underlying error names the failed operation and the path or key: a `FileSystemError` with the `errno` of the
/// system, or an `InvalidKey` for a key that was rejected before any system call.
public enum StorageError: Error {
    /// Nothing is stored for the key.
    case notFound

    /// The read failed; the error does not tell whether a value is stored for the key.
    case cantRead(any Error)

    /// The value was not stored, and the previous value is kept. Exception: if the underlying error is a
    /// `FileSystemError` with `isEffectVisible`, the new value is stored, but a power cut may undo that.
    case cantWrite(any Error)

    /// The value was not removed. Exception: if the underlying error is a `FileSystemError` with `isEffectVisible`, it
    /// was removed, but a power cut may undo that.
    case cantRemove(any Error)
}

extension StorageError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notFound: "nothing is stored for the key"
        case .cantRead(let error): "cannot read: \(error)"
        case .cantWrite(let error): "cannot write: \(error)"
        case .cantRemove(let error): "cannot remove: \(error)"
        }
    }
}
