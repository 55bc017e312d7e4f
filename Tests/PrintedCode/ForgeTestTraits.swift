// Declarations that code in doc comments of ForgeTestTraits uses.

import ForgeKVStore
import Testing

extension KVSettings {
    static let fontSize = KVSetting("editor.fontSize", default: 13.0)
}
