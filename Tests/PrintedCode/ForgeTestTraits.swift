// The declarations that doc comments of ForgeTestTraits take for granted.

import ForgeKVStore
import Testing

extension KVSettings {
    static let fontSize = KVSetting("editor.fontSize", default: 13.0)
}
