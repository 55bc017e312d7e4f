/// Why a ``Storage`` could not do what it was asked to do.
///
/// The error inside says what failed on which key: a `FileSystemError` with the number that the system gave, or an
/// `InvalidKey` for a key that was refused before anything was touched.
public enum StorageError: Error {
    /// Nothing is stored for the key.
    case notFound

    /// Whether something is stored for the key, or what, could not be found out.
    case cantRead(any Error)

    /// The value was not stored. What was stored before is still there, except after an error that says that its effect
    /// is visible: then the new value is there, but a power cut may take it away again.
    case cantWrite(any Error)

    /// The value was not removed, with the same exception.
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
