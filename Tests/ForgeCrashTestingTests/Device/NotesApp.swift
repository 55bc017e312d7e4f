import ForgeCrashTesting
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation

/// A correctly written app, on which the events of a device are tested.
///
/// It is launched on a device, keeps the objects obtained then, and is launched again after its process has ended.
struct NotesApp {
    /// The screen at launch.
    enum Screen: Equatable {
        /// This installation has never been used.
        case welcome
        case logIn
        case notes(user: String, count: Int)
        /// The data exists but is unreadable: not a reason to start over.
        case waitingForUnlock
    }

    static let hasLaunched = KVKey<Bool>("has-launched")
    static let token = CryptKey<String>(key: "token", accessibility: .afterFirstUnlock)

    let settings: DeviceKVStore
    let notes: DiskFileStore
    let secrets: KeychainCrypt
    let session: SessionManager<ConformanceUser, SessionStorageError>
    let thumbnails: ImageCacheManager

    init(on device: SimulatedDevice) {
        settings = device.keyValueStore()
        notes = device.fileStore(namespace: "notes", fileProtection: .complete)
        secrets = device.secrets()
        session = SessionManager(storage: device.sessionStorage())
        thumbnails = ImageCacheManager(
            fileSystem: device.fileSystem, cacheDirectory: device.url(of: .caches).appending(component: "Thumbnails"))
    }

    /// Launches the app: a new installation deletes the secrets of an earlier one.
    func start() async throws -> Screen {
        do {
            guard try settings.read(Self.hasLaunched) ?? false else {
                try secrets.deleteAll()
                try session.clearUser()
                try settings.set(Self.hasLaunched, value: true)
                return .welcome
            }
            guard let user = try session.loadUser() else { return .logIn }
            return .notes(user: user.name, count: try await notes.list().count)
        } catch let error where unavailability(error) == .locked {
            return .waitingForUnlock
        } catch SessionStorageError.unavailable(let error) where unavailability(error) == .locked {
            return .waitingForUnlock
        }
    }

    func logIn(_ name: String) async throws {
        try secrets.set("token of \(name)", for: Self.token)
        try session.saveUser(ConformanceUser(id: "1", name: name))
    }

    /// Stores a note and a thumbnail of it, which is optional.
    func write(_ text: String, _ key: String) async throws {
        try await notes.save(Data(text.utf8), to: key)
        try thumbnails.cacheImage(id: key, data: Data(text.utf8.prefix(4)))
    }

    /// A thumbnail, recreated if it is not in the cache.
    func thumbnail(_ key: String) async throws -> Data {
        if let image = try thumbnails.readCachedImage(id: key) { return image.data }
        let data = try await notes.load(key).prefix(4)
        try thumbnails.cacheImage(id: key, data: Data(data))
        return Data(data)
    }
}

/// Brings a device into a lock state, by restarting it if necessary.
func bring(_ device: SimulatedDevice, to lock: LockState) {
    switch lock {
    case .beforeFirstUnlock: device.reboot()
    case .locked:
        device.unlock()
        device.lock()
    case .unlocked: device.unlock()
    }
}

/// The unavailability that an error of any store reports, if it does.
func unavailability(_ error: any Error) -> Unavailability? {
    switch error {
    case let error as KVStoreError: return error.code.unavailability
    case let error as FileStoreError:
        guard case .unavailable(let reason) = error.code else { return nil }
        return reason
    case let error as CryptError:
        guard case .unavailable(let reason) = error.code else { return nil }
        return reason
    case let error as FileSystemError: return error.isLocked ? .locked : nil
    default: return nil
    }
}

let isLocked: @Sendable (any Error) -> Bool = { unavailability($0) == .locked }
let isEnded: @Sendable (any Error) -> Bool = { unavailability($0) == .inputOutput }

/// Whether the error of a file store for a file that it must not overwrite is that it exists, or that the device is
/// locked.
let isLockedOrThere: @Sendable (any Error) -> Bool = { error in
    isLocked(error) || (error as? FileStoreError)?.code == .alreadyExists
}

func hasCode(_ code: CryptError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? CryptError)?.code == code }
}

func hasCode(_ code: FileStoreError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? FileStoreError)?.code == code }
}
