/// Why a user could not be stored, loaded or removed.
///
/// The error inside is the one of the store that the session is kept in; it names the key, never the user.
public enum SessionStorageError: Error {
    /// Something is stored, but it is no user of the type asked for.
    case undecodable(any Error)

    /// Whether a user is stored could not be found out, for example because the device is locked.
    case unavailable(any Error)

    /// The user was not stored; who was stored before still is.
    case cantSave(any Error)

    /// The user was not removed.
    case cantClear(any Error)
}

extension SessionStorageError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .undecodable(let error): "what is stored is no user: \(error)"
        case .unavailable(let error): "cannot load the user: \(error)"
        case .cantSave(let error): "cannot save the user: \(error)"
        case .cantClear(let error): "cannot clear the user: \(error)"
        }
    }
}
