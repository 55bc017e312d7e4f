import ForgeStorage
import Foundation
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

    @Test func aFullDiskIsReported() async throws {
        let disk = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 1 << 20)))
        let book = book(files: InMemoryFileStore(fileSystem: disk))
        let file = FileManager.default.temporaryDirectory.appending(path: "large-\(UUID())")
        try Data(count: 2 << 20).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }

        let error = await #expect(throws: FileStoreError.self) { try await book.attach(file) }
        #expect(error?.code == .noSpace)
        #expect(try await book.attachments() == [])
    }
}
