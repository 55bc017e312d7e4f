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
