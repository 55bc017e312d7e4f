import ForgeS3
import ForgeStorage
import Foundation

/// A file store on a server, as the verbs use it.
protocol ServerFileStoring: CommandFileStore {
    /// Opens a file for a copy; nil if there is none.
    func openForCopy(_ key: String) async throws -> (any CopiedFile)?

    /// Stores the content of another file, replacing an existing one, with constant memory.
    func save(_ file: any CopiedFile, to key: String) async throws
}

#if S3
extension S3FileStore: ServerFileStoring {
    func content(of key: String) async throws -> any AsyncSequence<Data, any Error> { contents(of: key) }

    func newFile(_ key: String, if condition: SaveCondition) async throws -> any FileWriting {
        try writer(for: key, if: condition)
    }

    func forEachFile(in directory: String, _ body: (StoredFile) throws -> Void) async throws {
        let files = try await list(in: directory, recursive: true).filter { !$0.isDirectory }
        // As in a store on disk: component by component, so that the slash comes before all other bytes.
        let order: (StoredFile) -> [UInt8] = { $0.key.utf8.map { $0 == UInt8(ascii: "/") ? 0 : $0 } }
        for file in files.sorted(by: { order($0).lexicographicallyPrecedes(order($1)) }) { try body(file) }
    }

    func openForCopy(_ key: String) async throws -> (any CopiedFile)? {
        do {
            return S3CopiedFile(store: self, reader: try await reader(for: key))
        } catch let error as FileStoreError where [.notFound, .isDirectory, .notDirectory].contains(error.code) {
            return nil
        }
    }

    func save(_ file: any CopiedFile, to key: String) async throws {
        try await save(
            sizeInBytes: file.sizeInBytes, checksum: try await file.checksum(), to: key,
            reading: { try await file.read($0) }, checking: { try file.requireUnchanged() })
    }
}

/// A file in S3 that is copied.
private struct S3CopiedFile: CopiedFile {
    let store: S3FileStore
    let reader: S3FileReader

    var sizeInBytes: Int64 { reader.file.sizeInBytes }
    var identity: String { "\(reader.revision)" }
    var knownChecksum: String? { reader.checksum }

    func read(_ range: Range<Int64>) async throws -> Data { try await reader.read(range) }

    func checksumOfContent() async throws -> String {
        var hash = ContentHash()
        for try await part in store.contents(of: reader.file.key) { hash.update(part) }
        return hash.finish()
    }

    /// Every part of a file is read with its revision.
    func requireUnchanged() {}
}
#endif
