import Crypto
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// A local file that is the source of a copy, open for reading.
struct SourceFile {
    /// The maximum size in bytes of a file that ``shortContent()`` reads.
    private static let shortSize: Int64 = 1 << 16
    /// The number of bytes of one read.
    private static let pieceSize: Int64 = 1 << 18

    let descriptor: Descriptor
    /// The status before the first read.
    let status: FileStatus
    let path: POSIXPath
    private let fileSystem: SystemFileSystem

    /// Opens a file in a directory, without following a link and without waiting for the writer of a FIFO.
    ///
    /// The caller closes `descriptor`.
    init(
        _ name: POSIXPath, in directory: Descriptor, path: POSIXPath, on fileSystem: SystemFileSystem
    ) throws(SourceFailure) {
        do throws(FileSystemError) {
            descriptor = try fileSystem.open(
                name, at: directory, .readOnly, options: [.noFollow, .nonBlocking], permissions: [])
        } catch {
            throw SourceFailure(error: FileSystemError(error.operation, error.errno, path: path))
        }
        do throws(FileSystemError) {
            status = try fileSystem.status(of: .descriptor(descriptor))
        } catch {
            fileSystem.discard(descriptor)
            throw SourceFailure(error: error)
        }
        self.path = path
        self.fileSystem = fileSystem
    }

    /// Opens a directory of the source without following links below its root; an empty path is the root.
    static func openDirectory(
        _ path: POSIXPath, in source: ConfinedDirectory
    ) throws(SourceFailure) -> Descriptor {
        do throws(FileSystemError) {
            return try source.open(path.isEmpty ? "." : path)
        } catch {
            throw SourceFailure(error: FileSystemError(error.operation, error.errno, path: source.path.appending(path)))
        }
    }

    /// Whether the file at a path of the source is one of a kind of store, according to its content; false if there is
    /// none.
    static func hasKind(
        _ kind: StoreKind, _ path: POSIXPath, in source: ConfinedDirectory
    ) throws(FileSystemError) -> Bool {
        do {
            let (directory, name) = try source.openParent(of: path)
            defer { source.fileSystem.discard(directory) }
            return try source.fileSystem.kindByContent(of: name, at: directory) == kind
        } catch  where error.errno.isDisappearance {
            return false
        }
    }

    /// Calls `body`, and converts its error to a failure of this file.
    func reading<Result>(_ body: () throws(FileSystemError) -> Result) throws(SourceFailure) -> Result {
        do throws(FileSystemError) { return try body() } catch { throw SourceFailure(error: error.named(path)) }
    }

    /// Throws if the file has changed since it was opened.
    func requireUnchanged() throws(SourceFailure) {
        let now = try reading { () throws(FileSystemError) in try fileSystem.status(of: .descriptor(descriptor)) }
        guard FileRevision(now) == FileRevision(status) else {
            throw SourceFailure(
                error: FileSystemError(.read, .resourceTemporarilyUnavailable, path: path), isChange: true)
        }
    }

    // MARK: Content

    /// Whether the file may be sparse: it occupies less space than its size.
    var mayHaveHoles: Bool { status.allocatedSizeInBytes < status.sizeInBytes }

    /// The whole content of a file of at most 64 KiB; nil for a longer file.
    func shortContent() throws(SourceFailure) -> [UInt8]? {
        guard status.sizeInBytes <= Self.shortSize else { return nil }
        let bytes = try read(0..<status.sizeInBytes)
        try requireUnchanged()
        return bytes
    }

    /// The bytes of a range; fewer if the file has become shorter.
    func read(_ range: Range<Int64>) throws(SourceFailure) -> [UInt8] {
        try reading { () throws(FileSystemError) in
            try fileSystem.readBytes(of: descriptor, at: range.lowerBound, count: range.count)
        }
    }

    /// Whether another file has the same content and the same store attributes.
    func isEqual(to other: Descriptor) throws -> Bool {
        let present = try fileSystem.status(of: .descriptor(other))
        guard present.type == .regular, present.sizeInBytes == status.sizeInBytes,
            try commonLength(with: other) == status.sizeInBytes
        else { return false }
        return try attributes() == fileSystem.fileAttributes(of: other)
    }

    /// The length in bytes of a common prefix of this file and another; a difference inside a piece excludes the whole
    /// piece.
    func commonLength(with other: Descriptor) throws -> Int64 {
        var offset: Int64 = 0
        while case let piece = try read(offset..<offset + Self.pieceSize), !piece.isEmpty,
            try fileSystem.readBytes(of: other, at: offset, count: piece.count) == piece
        {
            offset += Int64(piece.count)
            try Interruption.check()
        }
        return offset
    }

    // MARK: Attributes

    /// The store attributes of the file.
    func attributes() throws(SourceFailure) -> [String: [UInt8]] {
        try reading { () throws(FileSystemError) in try fileSystem.fileAttributes(of: descriptor) }
    }

    /// The store attributes of the file as text; `key` is named in errors.
    ///
    /// - Throws: `FileStoreError` with `.undecodable` for an attribute that is not valid UTF-8.
    func attributes(named key: String) throws -> [String: String] {
        try attributes().mapValues { bytes in
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw FileStoreError(.undecodable, .copy, key: key)
            }
            return text
        }
    }

    /// Copies the file, with its store attributes, to a file store.
    func store(in store: DiskFileStore, as key: String) async throws {
        let attributes = try attributes(named: key)
        guard !attributes.isEmpty else {
            return try await store.copy(from: URL(path), to: key, overwrite: true)
        }
        try await store.write(to: key, attributes: attributes) { writer in
            var offset: Int64 = 0
            while true {
                try Interruption.check()
                let piece = try read(offset..<offset + (1 << 20))
                guard !piece.isEmpty else { break }
                try await writer.write(Data(piece))
                offset += Int64(piece.count)
            }
            try requireUnchanged()
        }
    }
}

/// A failure to read one file or directory of the source; the other files can still be copied.
struct SourceFailure: Error, CustomStringConvertible {
    let error: FileSystemError

    /// Whether the file was changed while it was copied.
    var isChange = false

    var description: String { isChange ? "changed while it was copied" : "\(error)" }
}

/// A file of the source or destination of a copy with a server, open for reading.
protocol CopiedFile: Sendable {
    var sizeInBytes: Int64 { get }

    /// A text that differs between two contents of the same file.
    var identity: String { get }

    /// The SHA-256 that was stored with the content, in hexadecimal digits; nil if there is none.
    var knownChecksum: String? { get }

    /// The bytes of a range; fewer if the file has become shorter.
    func read(_ range: Range<Int64>) async throws -> Data

    /// Reads the content, and returns its SHA-256 in hexadecimal digits.
    func checksumOfContent() async throws -> String

    /// Throws if the file has changed since it was opened.
    func requireUnchanged() throws
}

extension CopiedFile {
    /// The SHA-256 of the content in hexadecimal digits; the content is read only if no checksum was stored with it.
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

/// Computes the SHA-256 of a content, in hexadecimal digits.
struct ContentHash {
    private var hash = SHA256()

    mutating func update(_ data: some DataProtocol) { hash.update(data: data) }

    func finish() -> String {
        hash.finalize().map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}

/// A local file that is copied to a server, or compared with a file there.
final class LocalCopiedFile: CopiedFile {
    private static let pieceSize: Int64 = 1 << 20

    let file: SourceFile
    /// The checksum; nil before it is computed.
    private let computed = Mutex<String?>(nil)

    /// Takes ownership of the descriptor of the file, and closes it in `deinit`.
    init(_ file: SourceFile) {
        self.file = file
    }

    deinit { SystemFileSystem().discard(file.descriptor) }

    var sizeInBytes: Int64 { file.status.sizeInBytes }
    var identity: String { "\(FileRevision(file.status))" }
    var knownChecksum: String? { computed.withLock { $0 } }

    func read(_ range: Range<Int64>) async throws -> Data {
        Data(try await BlockingLane.general.run { [file] () throws(SourceFailure) in try file.read(range) })
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
