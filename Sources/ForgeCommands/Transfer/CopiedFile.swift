import Crypto
import ForgeStorage
import Foundation
import Synchronization

/// A file of one side of a copy, open for reading.
protocol CopiedFile: Sendable {
    var sizeInBytes: Int64 { get }

    /// Differs between two contents of the same file.
    var identity: String { get }

    /// The SHA-256 that was stored with the content, in hexadecimal digits; nil if there is none.
    var knownChecksum: String? { get }

    /// The bytes of a range; fewer if the file has become shorter.
    func read(_ range: Range<Int64>) async throws -> Data

    /// The SHA-256 of the content, which is read for it.
    func checksumOfContent() async throws -> String

    /// Throws if the file has changed since it was opened.
    func requireUnchanged() throws
}

extension CopiedFile {
    /// The SHA-256 of the content, which is read only if no checksum was stored with it.
    func checksum() async throws -> String {
        if let knownChecksum { return knownChecksum }
        return try await checksumOfContent()
    }

    /// Whether another file has the same content.
    func isEqual(to other: any CopiedFile) async throws -> Bool {
        guard sizeInBytes == other.sizeInBytes else { return false }
        return try await checksum() == other.checksum()
    }
}

/// A SHA-256 in hexadecimal digits.
struct ContentHash {
    private var hash = SHA256()

    mutating func update(_ data: some DataProtocol) { hash.update(data: data) }

    func finish() -> String {
        hash.finalize().map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}

/// A file on this machine that is copied to a server, or compared with one there.
final class LocalCopiedFile: CopiedFile {
    private static let pieceSize: Int64 = 1 << 20

    let file: SourceFile
    /// The checksum, once it is computed.
    private let computed = Mutex<String?>(nil)

    /// Takes over the descriptor of the file.
    init(_ file: SourceFile) {
        self.file = file
    }

    deinit { SystemFileSystem().discard(file.descriptor) }

    var sizeInBytes: Int64 { file.status.sizeInBytes }
    var identity: String { "\(FileRevision(file.status))" }
    var knownChecksum: String? { computed.withLock { $0 } }

    func read(_ range: Range<Int64>) async throws -> Data {
        Data(try await BlockingWork.run { [file] () throws(SourceFailure) in try file.read(range) })
    }

    func checksumOfContent() async throws -> String {
        var hash = ContentHash()
        var offset: Int64 = 0
        while offset < sizeInBytes {
            try Interruption.check()
            let piece = try await read(offset..<min(offset + Self.pieceSize, sizeInBytes))
            guard !piece.isEmpty else { break }
            hash.update(piece)
            offset += Int64(piece.count)
        }
        try requireUnchanged()
        let checksum = hash.finish()
        computed.withLock { $0 = checksum }
        return checksum
    }

    func requireUnchanged() throws { try file.requireUnchanged() }
}
