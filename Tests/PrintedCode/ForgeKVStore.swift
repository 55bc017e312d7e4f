// Declarations that code in doc comments of ForgeKVStore uses.

import Logging
import Observation
import Testing

enum Theme: String, Codable { case system, light, dark }

extension KVSettings {
    static let theme = KVSetting("theme", default: Theme.system)
    static let launches = KVSetting("launches", default: 0)
}

extension KVKey where Value == Bool {
    static var hasCompletedOnboarding: KVKey<Bool> { KVKey("onboarding.completed") }
}

struct Settings: Codable { var theme: Theme }
struct SettingsV1: Codable { var isDark: Bool }
struct SettingsV2: Codable { var theme: Theme }
final class Label { var text = "" }

let settings = KVKey<Settings>("settings")
let count = KVKey<Int>("count")
let balance = KVKey<Int>("balance")
let pending = KVKey<Int>("pending")
let token = KVKey<String>("token")
let store = ReactiveKVStore(InMemoryKVStore())
let url = URL(filePath: "settings")
let groupContainer = URL(filePath: "group")
let options = FileKVStore.Options()
let label = Label()
let logger = Logger(label: "settings")
