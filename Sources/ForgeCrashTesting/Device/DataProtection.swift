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
        /// Classes by inode number, which is not reused before a power cut; a missing inode has the default class.
        var classes: [UInt64: FileProtection] = [:]
    }

    /// The default class of an app's files on iOS.
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

    /// Removes the classes of all other inodes: after a power cut the disk may reuse the numbers of lost inodes.
    func keepOnly(_ inodes: Set<UInt64>) {
        state.withLock { state in state.classes = state.classes.filter { inodes.contains($0.key) } }
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
