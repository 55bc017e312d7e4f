import ForgeFileStore
import Synchronization

/// The lock state of a device, and the protection class of every file and directory on it.
///
/// The rules are those of Data Protection (Apple Platform Security, "Data Protection classes"), with one
/// simplification: the key of the class `complete` is discarded when the device is locked, not ten seconds later.
final class DataProtection: Sendable {
    /// A use of a file's content.
    enum Use {
        case creating, opening
        /// Reading or writing through an open descriptor.
        case accessing
    }

    private struct State {
        var lock = LockState.unlocked
        /// Classes by the identity of the file, which is never reused and survives a power cut; a missing file has the
        /// default class.
        var classes: [UInt64: FileProtection] = [:]
    }

    /// The default class of an app's files on iOS.
    static let standard = FileProtection.completeUntilFirstUserAuthentication

    private let state = Mutex(State())

    var lock: LockState {
        get { state.withLock { $0.lock } }
        set { state.withLock { $0.lock = newValue } }
    }

    /// The class of a file or directory, by its identity.
    subscript(identity: UInt64) -> FileProtection {
        get { state.withLock { $0.classes[identity] ?? Self.standard } }
        set { state.withLock { $0.classes[identity] = newValue == Self.standard ? nil : newValue } }
    }

    /// Removes all classes, for a new disk, whose files have the same identities.
    func removeAll() {
        state.withLock { $0.classes = [:] }
    }

    /// Whether the content of a file of this class can be used in this way at present.
    func allows(_ use: Use, _ protection: FileProtection) -> Bool {
        let lock = lock
        guard lock != .unlocked else { return true }
        return switch protection {
        case .none: true
        case .complete: false
        // Sealing needs only the public key of the class, which is always available.
        case .completeUnlessOpen: use != .opening
        case .completeUntilFirstUserAuthentication: lock == .locked
        }
    }
}
