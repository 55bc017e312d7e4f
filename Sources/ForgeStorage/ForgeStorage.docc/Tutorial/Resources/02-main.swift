import ForgeStorage
import Foundation

extension KVSettings {
    static let newestFirst = KVSetting("newestFirst", default: false)
}

let root = FileManager.default.homeDirectoryForCurrentUser.appending(path: ".notes")
let store = try FileKVStore(at: root.appending(path: "store"))

print(store[.newestFirst])  // false, until it is set.
try store.set(.newestFirst, value: true)
