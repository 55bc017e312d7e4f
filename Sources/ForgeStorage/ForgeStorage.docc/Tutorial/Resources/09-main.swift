import ForgeStorage
import Foundation

let root = FileManager.default.homeDirectoryForCurrentUser.appending(path: ".notes")
let arguments = Array(CommandLine.arguments.dropFirst())

do {
    try await FileKVStore.withStore(at: root.appending(path: "store"), options: .init(sharing: .shared)) { store in
        let book = NoteBook(
            store: store,
            files: DiskFileStore(root: root.appending(path: "files")),
            secrets: try VaultCrypt(
                at: root.appending(path: "secrets/vault"),
                key: VaultKeyFile.loadOrCreate(at: root.appending(path: "key/vault-key"))))
        switch (arguments.first, arguments.count) {
        case ("add", 2): try book.add(arguments[1])
        case ("list", 1): for note in try book.notes() { print(note.text) }
        case ("newest-first", 2): try store.set(.newestFirst, value: arguments[1] == "on")
        case ("attach", 2): try await book.attach(URL(fileURLWithPath: arguments[1]))
        case ("sign-in", 2): try book.signIn(with: arguments[1])
        default: print("usage: notes add TEXT | list | newest-first on|off | attach FILE | sign-in TOKEN")
        }
    }
} catch {
    FileHandle.standardError.write(Data("notes: \(error)\n".utf8))
    exit(1)
}
