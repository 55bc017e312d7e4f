/// A failure to store, load or remove a user.
///
/// The associated error is that of the underlying store; it names the key, never the user.
public enum SessionStorageError: Error {
    /// The stored value is not a user of the requested type, or a later version of the app saved it.
    case undecodable(any Error)

    /// The store cannot be read, for example because the device is locked.
    case unavailable(any Error)

    /// The user was not stored; the previous one is kept.
    case cantSave(any Error)

    /// The user was not removed.
    case cantClear(any Error)

    /// The user was stored or removed, but a power cut may undo it, or it is unknown whether and when that happens:
    /// load the user before deciding. The error of the store tells which.
    case unknownOutcome(any Error)
}

extension SessionStorageError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .undecodable(let error): "what is stored is no user: \(error)"
        case .unavailable(let error): "cannot load the user: \(error)"
        case .cantSave(let error): "cannot save the user: \(error)"
        case .cantClear(let error): "cannot clear the user: \(error)"
        case .unknownOutcome(let error): "perhaps stored or removed the user: \(error)"
        }
    }
}
