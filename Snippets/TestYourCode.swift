// Code that depends on the protocol is tested in memory.
// snippet.show
import ForgeStorage
import Foundation

/// Depends on the protocol, so it works on any store.
final class Onboarding {
    static let done = KVKey<Bool>("onboarding.done")
    private let store: any KVStoring

    init(store: any KVStoring) {
        self.store = store
    }

    var isDone: Bool { store.get(Self.done) ?? false }
    func finish() throws { try store.set(Self.done, value: true) }
}

// In the app:
let app = Onboarding(store: try FileKVStore(at: URL(fileURLWithPath: "settings")))

// In a test: no disk access, nothing to clean up.
let test = Onboarding(store: InMemoryKVStore())
try test.finish()
assert(test.isDone)

// A full disk, without filling one:
let fileSystem = InMemoryFileSystem()
let cache = ImageCacheManager(fileSystem: fileSystem, cacheDirectory: URL(fileURLWithPath: "/cache"))
fileSystem.writeError = CocoaError(.fileWriteOutOfSpace)
do {
    try cache.cacheImage(id: "avatar", data: Data())
} catch {
    print("the app shows:", error)
}
