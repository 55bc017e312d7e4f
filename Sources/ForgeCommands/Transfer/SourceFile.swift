import ForgeStorage
import Foundation
import SystemPackage

/// A file that is copied, open for reading.
struct SourceFile {
    /// The longest file that is read at once.
    private static let shortSize: Int64 = 1 << 16
    private static let pieceSize = 1 << 18

    let descriptor: Descriptor
    /// The status before the first read.
    let status: FileStatus
    let path: POSIXPath
    private let fileSystem: SystemFileSystem

    /// Opens a file of a directory, without following a link and without waiting for the other end of a pipe.
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

    /// Opens a directory of the source, empty for the root, without following links below the root.
    static func openDirectory(
        _ path: POSIXPath, in source: ConfinedDirectory
    ) throws(SourceFailure) -> Descriptor {
        do throws(FileSystemError) {
            return try source.open(path.isEmpty ? "." : path)
        } catch {
            throw SourceFailure(error: FileSystemError(error.operation, error.errno, path: source.path.appending(path)))
        }
    }

    /// Calls `body`, and attributes its error to this file.
    func reading<Result>(_ body: () throws(FileSystemError) -> Result) throws(SourceFailure) -> Result {
        do {
            return try fileSystem.withPathInErrors(path, body)
        } catch {
            throw SourceFailure(error: error)
        }
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

    /// Whether some blocks of the file are not stored.
    var mayHaveHoles: Bool { status.allocatedSizeInBytes < status.sizeInBytes }

    /// The whole content of a short file; nil for a longer one.
    func shortContent() throws(SourceFailure) -> [UInt8]? {
        guard status.sizeInBytes <= Self.shortSize else { return nil }
        let bytes = try reading { () throws(FileSystemError) in
            try fileSystem.readBytes(of: descriptor, at: 0, count: Int(status.sizeInBytes))
        }
        try requireUnchanged()
        return bytes
    }

    /// The bytes of a range; fewer if the file has become shorter.
    func read(_ range: Range<Int64>) throws(SourceFailure) -> [UInt8] {
        try reading { () throws(FileSystemError) in
            try fileSystem.readBytes(of: descriptor, at: range.lowerBound, count: range.count)
        }
    }

    /// Whether another file has the same content and the same attributes of stores.
    func isEqual(to other: Descriptor) throws -> Bool {
        let present = try fileSystem.status(of: .descriptor(other))
        guard present.type == .regular, present.sizeInBytes == status.sizeInBytes,
            try commonLength(with: other) == status.sizeInBytes
        else { return false }
        return try attributes() == fileSystem.fileAttributes(of: other)
    }

    /// The number of bytes, from the first, that another file has too, in whole pieces unless all are equal.
    func commonLength(with other: Descriptor) throws -> Int64 {
        var offset: Int64 = 0
        while true {
            try Interruption.check()
            let piece = try reading { () throws(FileSystemError) in
                try fileSystem.readBytes(of: descriptor, at: offset, count: Self.pieceSize)
            }
            guard !piece.isEmpty, try fileSystem.readBytes(of: other, at: offset, count: piece.count) == piece else {
                return offset
            }
            offset += Int64(piece.count)
        }
    }

    // MARK: Attributes

    /// The attributes that a store has given the file.
    func attributes() throws(SourceFailure) -> [String: [UInt8]] {
        try reading { () throws(FileSystemError) in try fileSystem.fileAttributes(of: descriptor) }
    }

    /// The same as texts, for a store.
    func attributes(named key: String) throws -> [String: String] {
        try attributes().mapValues { bytes in
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw FileStoreError(.undecodable, .copy, key: key)
            }
            return text
        }
    }

    /// Saves the file in a store.
    func store(in store: DiskFileStore, as key: String) async throws {
        let attributes = try attributes(named: key)
        guard !attributes.isEmpty else {
            return try await store.copy(from: URL(path), to: key, overwrite: true)
        }
        try await store.write(to: key, attributes: attributes) { writer in
            var offset: Int64 = 0
            while true {
                try Interruption.check()
                let piece = try reading { () throws(FileSystemError) in
                    try fileSystem.readBytes(of: descriptor, at: offset, count: 1 << 20)
                }
                guard !piece.isEmpty else { break }
                try await writer.write(Data(piece))
                offset += Int64(piece.count)
            }
            try requireUnchanged()
        }
    }
}

/// A failure of the source: it concerns one file.
struct SourceFailure: Error, CustomStringConvertible {
    let error: FileSystemError

    /// Whether the file was changed while it was copied.
    var isChange = false

    var description: String { isChange ? "changed while it was copied" : "\(error)" }
}
