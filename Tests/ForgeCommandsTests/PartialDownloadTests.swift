import ForgeStorage
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeCommands

/// A file on a server, in memory.
private final class RemoteFile: CopiedFile {
    let content: Data
    let knownChecksum: String?
    /// Where a read fails, as if the server had disappeared.
    let end: Int64
    /// The offsets that were read.
    let offsets = Mutex<[Int64]>([])

    init(_ content: Data, hasChecksum: Bool = true, checksum: String? = nil, end: Int64 = .max) {
        self.content = content
        self.end = end
        var hash = ContentHash()
        hash.update(content)
        knownChecksum = hasChecksum ? checksum ?? hash.finish() : nil
    }

    var sizeInBytes: Int64 { Int64(content.count) }
    var identity: String { "identity" }

    func read(_ range: Range<Int64>) async throws -> Data {
        offsets.withLock { $0.append(range.lowerBound) }
        guard range.upperBound <= end else { throw FileStoreError(.unavailable(.server), .load, key: "a") }
        return content[Int(range.lowerBound)..<Int(range.upperBound)]
    }

    func checksumOfContent() async throws -> String {
        var hash = ContentHash()
        hash.update(content)
        return hash.finish()
    }

    func requireUnchanged() {}
}

@Suite("A copy from a server under a temporary name")
struct PartialDownloadTests {
    private let scratch: Scratch
    private let fileSystem = SystemFileSystem()
    /// 20 MiB; a byte differs from the one 256 bytes later.
    private let content: Data = {
        let block = Data((0..<1 << 16).map { UInt8(truncatingIfNeeded: $0 >> 8) })
        return (0..<20 << 4).reduce(into: Data()) { content, _ in content.append(block) }
    }()

    init() throws {
        scratch = try Scratch()
    }

    private func copy(_ file: RemoteFile) async throws {
        let directory = try fileSystem.open(POSIXPath(scratch.url), .readOnly, options: [.directory])
        defer { fileSystem.discard(directory) }
        try await PartialFile(of: Array("a".utf8), in: directory, on: fileSystem)
            .finish(file, as: "final", isExpected: false)
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) }
    }

    @Test("goes on where the server was lost, and the name appears when the file is complete")
    func continues() async throws {
        await #expect(throws: FileStoreError.self) { try await copy(RemoteFile(content, end: 16 << 20)) }
        let name = try #require(names.first)
        #expect(try names.count == 1 && PartialFile.isName(POSIXPath(name)))
        let file = RemoteFile(content)
        try await copy(file)
        #expect(file.offsets.withLock { $0 } == [16 << 20])
        #expect(try names == ["final"])
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("final")) == content)
    }

    @Test("begins again if what was written is not of this content, or nothing can tell", arguments: [true, false])
    func beginsAgain(hasChecksum: Bool) async throws {
        await #expect(throws: FileStoreError.self) { try await copy(RemoteFile(content, end: 16 << 20)) }
        let left = scratch.url.appendingPathComponent(try #require(names.first))
        if hasChecksum {
            var damaged = try Data(contentsOf: left)
            damaged[9 << 20] ^= 1
            try damaged.write(to: left)
        }
        let file = RemoteFile(content, hasChecksum: hasChecksum)
        try await copy(file)
        #expect(file.offsets.withLock { $0.contains(0) })
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("final")) == content)
    }

    @Test("a content without its checksum is not stored, and leaves nothing")
    func damage() async throws {
        await #expect(throws: CopyDamage.self) { try await copy(RemoteFile(content, checksum: "00")) }
        #expect(try names.isEmpty)
    }

    @Test("a short file that was interrupted leaves nothing")
    func short() async throws {
        await #expect(throws: FileStoreError.self) {
            try await copy(RemoteFile(content.prefix(1 << 20), end: 0))
        }
        #expect(try names.isEmpty)
    }
}
