import ForgeKVStore
import Foundation

/// The notes in a key-value store: on disk in the tool, in memory in tests.
struct NoteBook {
    private static let lastID = KVKey<Int>("lastID")
    private static let prefix = "note/"

    let store: any KVTransactionalStoring

    struct NoSuchNote: Error, CustomStringConvertible {
        var id: Int
        var description: String { "there is no note \(id)" }
    }

    private func key(_ id: Int) -> KVKey<Note> { KVKey("\(Self.prefix)\(id)") }

    /// All notes, by number.
    func notes() throws -> [Note] {
        let snapshot = try store.snapshot()
        return try snapshot.names.filter { $0.hasPrefix(Self.prefix) }
            .compactMap { try snapshot.read(KVKey<Note>($0)) }
            .sorted { $0.id < $1.id }
    }

    func note(_ id: Int) throws -> Note {
        // `read` throws if the note cannot be read, so nil means that there is none.
        guard let note = try store.read(key(id)) else { throw NoSuchNote(id: id) }
        return note
    }

    func add(_ text: String, at date: Date = Date()) throws -> Note {
        // Atomic, so two processes never use the same number.
        let id = try store.update(Self.lastID, default: 0) { $0 += 1 }
        let note = Note(id: id, created: date, text: text)
        try store.set(key(id), value: note)
        return note
    }

    func remove(_ id: Int) throws {
        _ = try note(id)
        try store.remove(key(id))
    }
}
