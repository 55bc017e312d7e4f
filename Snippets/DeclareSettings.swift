// Settings with defaults, as the README shows them.
import ForgeStorage
import Foundation

// snippet.show
extension KVSettings {
    static let theme = KVSetting("theme", default: "system")
    static let launches = KVSetting("launches", default: 0)
}

let store = try FileKVStore(at: URL(fileURLWithPath: "my-app-data/settings"))
print(store[.theme])  // system
try store.set(.theme, value: "dark")

let launches = Setting(.launches, in: store)
try launches.withLock { $0 += 1 }  // Atomic even across processes.

let model = ObservedSettings(store)  // Updates views after every change of a setting.
