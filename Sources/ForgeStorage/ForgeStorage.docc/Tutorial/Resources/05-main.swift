import ForgeStorage
import Foundation

let root = FileManager.default.homeDirectoryForCurrentUser.appending(path: ".notes")
let arguments = Array(CommandLine.arguments.dropFirst())

try FileKVStore.withStore(at: root.appending(path: "store"), options: .init(sharing: .shared)) { store in
    let book = NoteBook(store: store)
    switch (arguments.first, arguments.count) {
    case ("add", 2): try book.add(arguments[1])
    case ("list", 1): for note in try book.notes() { print(note.text) }
    case ("newest-first", 2): try store.set(.newestFirst, value: arguments[1] == "on")
    default: print("usage: notes add TEXT | list | newest-first on|off")
    }
}
