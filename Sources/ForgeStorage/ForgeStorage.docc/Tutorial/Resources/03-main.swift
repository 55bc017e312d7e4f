import ForgeStorage
import Foundation

extension KVSettings {
    static let newestFirst = KVSetting("newestFirst", default: false)
}

struct Note: Codable {
    var text: String
    var created: Date
}

let root = FileManager.default.homeDirectoryForCurrentUser.appending(path: ".notes")
let store = try FileKVStore(at: root.appending(path: "store"))

let key = KVKey<[Note]>("notes")
try store.update(key, default: []) { notes in
    notes.append(Note(text: "Buy milk", created: Date()))
}
for note in try store.read(key) ?? [] { print(note.text) }
