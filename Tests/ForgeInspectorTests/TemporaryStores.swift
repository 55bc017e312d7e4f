import ForgeStorage
import Foundation
import Logging

/// A directory on disk for one test, removed when the object is released.
final class TemporaryStores: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "forge-inspector-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        do { try FileManager.default.removeItem(at: url) } catch {}
    }

    /// A directory with a key-value store `settings`, whose `key` is "value".
    static func withOneKey() throws -> TemporaryStores {
        let stores = try TemporaryStores()
        let store = try stores.keyValueStore()
        try store.set(KVKey<String>("key"), value: "value")
        try store.close()
        return stores
    }

    func place(_ name: String) -> URL { url.appending(path: name) }

    var root: ConfinedDirectory { get throws { try ConfinedDirectory(POSIXPath(url)) } }

    func keyValueStore(
        _ name: String = "settings", sharing: FileKVStore.Sharing = .exclusive
    ) throws -> FileKVStore {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        return try FileKVStore(at: place(name), options: .init(sharing: sharing, logger: logger))
    }
}
