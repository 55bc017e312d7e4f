import ForgeStorage
import Foundation

extension KVSettings {
    static let newestFirst = KVSetting("newestFirst", default: false)
}

struct Note: Codable {
    var text: String
    var created: Date
}

struct NoteBook {
    static let key = KVKey<[Note]>("notes")
    let store: any KVTransactionalStoring
    let files: any FileStoring

    func add(_ text: String) throws {
        try store.update(Self.key, default: []) { notes in
            notes.append(Note(text: text, created: Date()))
        }
    }

    func notes() throws -> [Note] {
        let notes = try store.read(Self.key) ?? []
        return store[.newestFirst] ? notes.reversed() : notes
    }

    func attach(_ file: URL) async throws {
        try await files.copy(from: file, to: "attachments/\(UUID().uuidString).\(file.pathExtension)")
    }

    func attachments() async throws -> [String] {
        try await files.list(recursive: true).filter { $0.kind == .file }.map(\.key).sorted()
    }
}
