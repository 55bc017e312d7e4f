import ForgeFileStore
import Synchronization

/// The state of a device's lock, and the class of protection of every file and directory on it.
///
/// The rules are those of Data Protection (Apple Platform Security, "Data Protection classes"), with one
/// simplification: the key of the class `complete` is gone the moment the device is locked, not ten seconds later.
final class DataProtection: Sendable {
    /// What is done with the content of a file.
    enum Use {
        case creating, opening
        /// Reading or writing through a descriptor that is open already.
        case goingOn
    }

    private struct State {
        var lock = LockState.unlocked
        /// By the number of the inode, which a file system never gives out twice; what is missing has the default.
        var classes: [UInt64: FileProtection] = [:]
    }

    /// The class that the system gives to the files of an app unless it says otherwise.
    static let standard = FileProtection.completeUntilFirstUserAuthentication

    private let state = Mutex(State())

    var lock: LockState {
        get { state.withLock { $0.lock } }
        set { state.withLock { $0.lock = newValue } }
    }

    /// The class of a file or directory.
    subscript(inode: UInt64) -> FileProtection {
        get { state.withLock { $0.classes[inode] ?? Self.standard } }
        set { state.withLock { $0.classes[inode] = newValue == Self.standard ? nil : newValue } }
    }

    /// Forgets the classes of all inodes but these: what a disk gives out next may have the number of one that is lost.
    func keepOnly(_ inodes: Set<UInt64>) {
        state.withLock { state in state.classes = state.classes.filter { inodes.contains($0.key) } }
    }

    /// Whether the content of a file of this class can be used so just now.
    func allows(_ use: Use, _ protection: FileProtection) -> Bool {
        let lock = lock
        guard lock != .unlocked else { return true }
        return switch protection {
        case .none: true
        case .complete: false
        // Sealing needs only the public half of the key of the class, which is there at all times.
        case .completeUnlessOpen: use != .opening
        case .completeUntilFirstUserAuthentication: lock == .locked
        }
    }
}
