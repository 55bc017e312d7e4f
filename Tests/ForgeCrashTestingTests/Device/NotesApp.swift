import ForgeCrashTesting
import ForgeCrypt
import ForgeFileStore
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
