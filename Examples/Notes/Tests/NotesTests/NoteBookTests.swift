import ForgeKVStore
import Testing

@testable import notes

struct NoteBookTests {
    let notes = NoteBook(store: InMemoryKVStore())

    @Test func numbersAreNotUsedAgain() throws {
        let first = try notes.add("one")
        try notes.remove(first.id)
        #expect(try notes.add("two").id == 2)
        #expect(try notes.notes().map(\.text) == ["two"])
    }

    @Test func missingNotesAreErrors() {
        #expect(throws: NoteBook.NoSuchNote.self) { try notes.note(1) }
        #expect(throws: NoteBook.NoSuchNote.self) { try notes.remove(1) }
    }

    @Test func unreadableNotesAreErrors() throws {
        try notes.store.set(KVKey<Int>("note/1"), value: 1)
        let error = #expect(throws: KVStoreError.self) { try notes.notes() }
        #expect(error?.code == .undecodable)
    }
}
