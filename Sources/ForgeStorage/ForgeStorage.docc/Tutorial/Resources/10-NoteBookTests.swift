import ForgeStorage
import Testing

@testable import notes

struct NoteBookTests {
    let store = InMemoryKVStore()

    func book(files: InMemoryFileStore = InMemoryFileStore()) -> NoteBook {
        NoteBook(store: store, files: files, secrets: InMemoryCrypt())
    }

    @Test func listsNotesInTheChosenOrder() throws {
        try book().add("one")
        try book().add("two")
        #expect(try book().notes().map(\.text) == ["one", "two"])
        try store.set(.newestFirst, value: true)
        #expect(try book().notes().map(\.text) == ["two", "one"])
    }

    @Test func unreadableNotesAreNotReplaced() throws {
        try store.set(KVKey<String>("notes"), value: "not a list")
        #expect(throws: KVStoreError.self) { try book().add("one") }
        #expect(store.get(KVKey<String>("notes")) == "not a list")
    }
}
