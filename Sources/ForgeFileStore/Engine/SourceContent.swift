import ForgeFileSystem
package import Foundation

/// The content of a file outside the store that is copied or moved into a store which reads it in parts.
package struct SourceContent: Sendable {
    private let source: OpenSource
    private let check: @Sendable () throws(FileStoreError) -> Void

    package var sizeInBytes: Int64 { source.status.sizeInBytes }

    /// Fills memory with the bytes at an offset; returns their number, which is smaller if the file ends there. Blocks
    /// the thread.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(FileStoreError) -> Int {
        try source.read(into: buffer, at: offset)
    }

    /// Reads everything.
    func readUnchanged() async throws(FileStoreError) -> Data {
        let content = try await BlockingLane.general.run { () throws(FileStoreError) in try source.readContents() }
        try check()
        return content
    }

    /// Throws `.changed` if another program has written to the file. To be called before the content is stored.
    package func checkUnchanged() throws(FileStoreError) { try check() }

    /// Calls `store` with the content of the source of a copy.
    package static func copying<Success>(
        _ url: URL, key: String, _ store: (SourceContent) async throws -> Success
    ) async throws -> Success {
        let source = try ExternalSource(url, on: SystemFileSystem(), .copy, key: key)
        let file = try await BlockingLane.general.run(until: nil) { _ in try source.open() }
        return try await store(
            SourceContent(source: file) { () throws(FileStoreError) in try file.checkUnchanged() })
    }

    /// Calls `store` with the content of the source of a move, under a private name, and removes it afterwards.
    package static func moving(
        _ url: URL, key: String, _ store: (SourceContent) async throws -> Void
    ) async throws {
        let source = try ExternalSource(url, on: SystemFileSystem(), .move, key: key)
        let (file, claim) = try await BlockingLane.general.run(until: nil) { _ in
            let file = try source.open()
            return (file, try ClaimedSource(file))
        }
        do {
            let content = SourceContent(source: file) { () throws(FileStoreError) in try claim.checkUnchanged() }
            try await store(content)
            try claim.checkUnchanged()
        } catch {
            throw claim.restore() ?? error
        }
        // The file is stored, so the move is completed even if the task is cancelled.
        try await BlockingLane.general.run { () throws(any Error) in try claim.remove() }
    }
}
