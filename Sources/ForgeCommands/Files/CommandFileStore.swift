import ForgeStorage
import Foundation

/// A file store as the commands need it, with streamed contents and listings.
protocol CommandFileStore: FileStoring {
    /// The content of a file in parts. It is the whole content only once the sequence has ended without an error.
    func content(of key: String) async throws -> any AsyncSequence<Data, any Error>

    /// Creates a file that is written in parts.
    func newFile(_ key: String, if condition: SaveCondition) async throws -> any FileWriting

    /// Calls `body` with every file below a directory, in the order of their keys.
    func forEachFile(in directory: String, _ body: (StoredFile) throws -> Void) async throws
}

extension CommandFileStore {
    /// Stores what `body` writes, or nothing if it throws.
    func write(_ key: String, if condition: SaveCondition, _ body: (any FileWriting) async throws -> Void) async throws
    {
        let writer = try await newFile(key, if: condition)
        do {
            try await body(writer)
            try await writer.commit()
        } catch {
            await writer.cancel()
            throw error
        }
    }
}

extension DiskFileStore: CommandFileStore {
    func content(of key: String) async throws -> any AsyncSequence<Data, any Error> {
        try await reader(for: key).chunks()
    }

    func newFile(_ key: String, if condition: SaveCondition) async throws -> any FileWriting {
        try await writer(for: key, if: condition, durability: nil, attributes: [:])
    }

    func forEachFile(in directory: String, _ body: (StoredFile) throws -> Void) async throws {
        for try await file in files(in: directory, FileListingOptions(sorted: true)) where !file.isDirectory {
            try body(file)
        }
    }
}
