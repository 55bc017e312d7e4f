import Crypto
import ForgeStorage
import Foundation
import SystemPackage

/// The list of the files of a backup: lines of JSON, the last of which contains the checksum of the others.
///
/// The last line is written after all files are durable. A backup whose manifest has no last line is unfinished.
enum BackupManifest {
    static let name: POSIXPath = "manifest"
    /// The directory of the files beside the manifest.
    static let content: POSIXPath = "content"

    /// The maximum length of a line in bytes: more than the longest path and all attributes have.
    static let lineLimit = 1 << 20

    /// Whether a directory of a tree is that of a backup, finished or not; an empty path is the root of the tree.
    static func isBackup(_ directory: POSIXPath, in tree: ConfinedDirectory) -> Bool {
        do {
            let opened = try tree.open(directory.isEmpty ? "." : directory)
            defer { tree.fileSystem.discard(opened) }
            return isBackup(opened, on: tree.fileSystem)
        } catch {
            return false
        }
    }

    /// A manifest that cannot be read counts as that of a backup, so that nothing is changed there. A directory that cannot
    /// be searched does not: no call can change what is in it.
    static func isBackup(_ directory: Descriptor, on fileSystem: any POSIXFileSystem) -> Bool {
        do throws(FileSystemError) {
            guard try fileSystem.status(content, at: directory, followsSymbolicLinks: false).type == .directory else {
                return false
            }
        } catch {
            return false
        }
        do throws(FileSystemError) {
            return hasFormat(try fileSystem.start(of: name, at: directory))
        } catch {
            return !error.errno.isDisappearance && error.errno != .notSupported
        }
    }

    /// Whether an open directory, or one above it, is that of a backup.
    static func contains(_ directory: Descriptor, on fileSystem: any POSIXFileSystem) -> Bool {
        isBackup(directory, on: fileSystem)
            || fileSystem.firstAbove(directory) { isBackup($0, on: fileSystem) ? true : nil } ?? false
    }

    /// Whether the first line of a manifest begins with these bytes, which contain the format.
    private static func hasFormat(_ start: [UInt8]) -> Bool {
        let format = Array(#""format":"\#(Header.format)""#.utf8)
        return start.indices.contains { start[$0...].starts(with: format) }
    }

    struct Header: Codable {
        static let format = "forge-backup"
        var format = Self.format
        var version = 1
        var created: Date
    }

    /// A file of the backup.
    struct File: Codable {
        /// Relative to the directory that was backed up.
        var path: String
        /// The size of the content in bytes.
        var bytes: Int64
        /// SHA-256 of the content, in hexadecimal digits.
        var sha256: String
        /// The permission bits.
        var permissions: UInt16
        /// The number of keys, if the file is the log of a key-value store.
        var keys: Int?
        /// The attributes that a store has given the file, by name; nil if it has none. The files of the backup also
        /// have them as extended attributes, but other programs may lose those when they copy the backup.
        var attributes: [String: Data]?

        /// The path of the file.
        ///
        /// - Throws: ``CommandFailure`` for a path that leads out of the backup, as an altered manifest may contain.
        func relativePath() throws(CommandFailure) -> POSIXPath { try BackupManifest.relativePath(path) }
    }

    /// A directory of the backup. Each one has a line before those of the files in it, so that empty ones are restored.
    struct Directory: Codable {
        /// The path, relative to the directory that was backed up; `.` is that directory.
        var directory: String
        /// The permission bits, those that a directory gives its entries (02000) and keeps them by (01000) included.
        var permissions: UInt16

        /// The permission bits that are saved.
        static let permissionMask: UInt16 = 0o3777

        var filePermissions: FilePermissions { FilePermissions(rawValue: CModeT(permissions & Self.permissionMask)) }

        /// The path of the directory, empty for `.`; throws as ``File/relativePath()``.
        func relativePath() throws(CommandFailure) -> POSIXPath {
            directory == "." ? "" : try BackupManifest.relativePath(directory)
        }
    }

    private static func relativePath(_ text: String) throws(CommandFailure) -> POSIXPath {
        // By bytes: a slash can be part of a larger character.
        let path = POSIXPath(text)
        let components = path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard
            components.allSatisfy({ !$0.isEmpty && !$0.elementsEqual(".".utf8) && !$0.elementsEqual("..".utf8) }),
            !path.containsNUL
        else {
            throw CommandFailure("the manifest contains a path that is not valid, or leads out of the backup: \(text)")
        }
        return path
    }

    /// The last line.
    struct End: Codable {
        /// The number of files.
        var files: Int
        /// SHA-256 of all lines before, in hexadecimal digits.
        var sha256: String
    }

    static func hexadecimal(_ digest: SHA256.Digest) -> String {
        digest.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}

/// Writes a manifest line by line.
final class BackupManifestWriter {
    private let fileSystem = SystemFileSystem()
    private let path: POSIXPath
    private let descriptor: Descriptor
    private var hash = SHA256()
    private var count = 0

    init(in directory: POSIXPath) throws {
        path = directory.appending(BackupManifest.name)
        descriptor = try fileSystem.openPrivateFile(path, at: .workingDirectory)
        try append(BackupManifest.Header(created: Date()))
    }

    deinit {
        fileSystem.discard(descriptor)
    }

    func add(_ file: BackupManifest.File) throws {
        try append(file)
        count += 1
    }

    func add(_ directory: BackupManifest.Directory) throws {
        try append(directory)
    }

    /// Completes the manifest durably.
    ///
    /// - Precondition: All files of the backup are durable.
    /// - Throws: `FileSystemError`; the backup is unfinished then.
    func finish() throws {
        let digest = hash.finalize()
        try append(BackupManifest.End(files: count, sha256: BackupManifest.hexadecimal(digest)))
        do throws(FileSystemError) { try fileSystem.synchronize(descriptor, .full) } catch { throw error.named(path) }
    }

    private func append(_ line: some Encodable) throws {
        let bytes = Array(try JSONText.line(line).utf8)
        hash.update(data: bytes)
        do throws(FileSystemError) {
            try fileSystem.writeBytes(bytes, to: descriptor)
        } catch {
            throw error.named(path)
        }
    }
}

/// Reads a manifest line by line.
struct BackupManifestReader {
    private let path: POSIXPath

    /// - Parameter directory: The directory of the backup.
    init(of directory: POSIXPath) {
        path = directory.appending(BackupManifest.name)
    }

    /// Calls `body` with each file and `directory` with each directory, and verifies the manifest; an alteration may be
    /// found only after some calls.
    ///
    /// - Throws: ``CommandFailure`` if the manifest is missing, unreadable, unfinished, altered, or of another version;
    ///   or the error of `body`.
    func forEach(
        _ body: (BackupManifest.File) throws -> Void,
        directory: (BackupManifest.Directory) throws -> Void = { _ in }
    ) throws {
        let fileSystem = SystemFileSystem()
        let descriptor: Descriptor
        do throws(FileSystemError) {
            let (parent, name) = path.splitLast()
            let directory = try fileSystem.openDirectory(parent)
            defer { fileSystem.discard(directory) }
            descriptor = try fileSystem.openRegularFile(name, at: directory).descriptor
        } catch {
            guard error.errno.isDisappearance else {
                throw CommandFailure("cannot open \(path.shown): \(error.errno.text)")
            }
            throw CommandFailure("not a finished backup: there is no \(path.shown)", .notFound)
        }
        defer { fileSystem.discard(descriptor) }
        var lines = LineReader(FileDescriptor(rawValue: descriptor.rawValue), limit: BackupManifest.lineLimit)
        func next() throws(CommandFailure) -> ArraySlice<UInt8>? {
            do {
                return try lines.next()
            } catch {
                throw CommandFailure("\(path.shown): \(error)", error.status)
            }
        }
        var hash = SHA256()
        var count = 0
        var isHeader = true
        while let line = try next() {
            let data = Data(line)
            if isHeader {
                try checkHeader(data)
                isHeader = false
            } else if let file = decode(BackupManifest.File.self, data) {
                count += 1
                try body(file)
            } else if let found = decode(BackupManifest.Directory.self, data) {
                try directory(found)
            } else if let end = decode(BackupManifest.End.self, data) {
                guard end.files == count, end.sha256 == BackupManifest.hexadecimal(hash.finalize()),
                    try next() == nil
                else { throw CommandFailure("the manifest is altered or damaged: \(path.shown)") }
                return
            } else {
                throw CommandFailure("the manifest is altered, damaged or unfinished: \(path.shown)")
            }
            hash.update(data: data)
            hash.update(data: [UInt8(ascii: "\n")])
        }
        throw CommandFailure("not a finished backup: the manifest is incomplete: \(path.shown)")
    }

    private func checkHeader(_ data: Data) throws {
        guard let header = decode(BackupManifest.Header.self, data),
            header.format == BackupManifest.Header.format
        else { throw CommandFailure("not the manifest of a backup: \(path.shown)") }
        guard header.version <= 1 else {
            throw CommandFailure("the backup was written by a later version of forge: \(path.shown)")
        }
        guard header.version == 1 else { throw CommandFailure("the manifest is altered or damaged: \(path.shown)") }
    }

    private func decode<Value: Decodable>(_ type: Value.Type, _ line: Data) -> Value? {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        do {
            return try decoder.decode(type, from: line)
        } catch {
            return nil  // The caller tries another kind of line, or reports it.
        }
    }
}

/// Copies a file that other processes may replace or write to, and computes the size and checksum of the copy.
struct HashedCopy {
    private static let attempts = 5
    private static let pieceSize = 1 << 18

    private let fileSystem = SystemFileSystem()

    /// The size and SHA-256 of a file's content.
    struct Content: Equatable {
        var bytes: Int64
        var sha256: String
    }

    /// Copies a file, with its permission bits.
    ///
    /// If the file is changed during the copy, the copy starts again; there are at most five attempts.
    ///
    /// - Parameters:
    ///   - item: The path of the file below `source`, and of the copy below `target`, whose parent directory must
    ///     exist. An existing file there is replaced. Links below the two directories are not followed.
    ///   - source: The directory that is read.
    ///   - target: The directory that is written to.
    ///   - given: The permission bits of the copy; nil for those of the file.
    ///   - attributes: The attributes of the copy; nil for the store attributes of the file.
    /// - Returns: The size and checksum of the copy, its permission bits and its attributes.
    /// - Throws: ``SourceFailure`` if the file cannot be read; `FileSystemError` if the copy cannot be written;
    ///   ``CommandFailure`` if the file changes during every attempt, or if interrupted. An incomplete copy remains
    ///   then.
    func copy(
        _ item: POSIXPath, in source: ConfinedDirectory, to target: ConfinedDirectory,
        permissions given: FilePermissions? = nil, attributes: [String: [UInt8]]? = nil
    ) throws -> (content: Content, permissions: FilePermissions, attributes: [String: [UInt8]]) {
        let path = target.path.appending(item)
        for _ in 0..<Self.attempts {
            let from = source.path.appending(item)
            let file = try open(item, in: source)
            defer { fileSystem.discard(file) }
            let before = try status(of: file, from)
            let permissions = given ?? FilePermissions(rawValue: before.permissions.rawValue & 0o777)
            let copy: Descriptor
            do throws(FileSystemError) {
                let (directory, name) = try target.openParent(of: item)
                defer { fileSystem.discard(directory) }
                copy = try fileSystem.open(
                    name, at: directory, .writeOnly, options: [.create, .truncate, .noFollow],
                    permissions: .ownerReadWrite)
            } catch {
                throw error.named(path)
            }
            defer { fileSystem.discard(copy) }
            let content = try read(file, from) { (piece) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try fileSystem.writeBytes(piece, to: copy)
                } catch {
                    throw error.named(path)
                }
            }
            let copiedAttributes =
                try attributes
                ?? reading(from) { () throws(FileSystemError) in try fileSystem.fileAttributes(of: file) }
            do throws(FileSystemError) {
                try fileSystem.setFileAttributes(copiedAttributes, of: copy)
                try fileSystem.setPermissions(permissions, of: .descriptor(copy))
                try BulkFlush.flush(copy, on: fileSystem)
            } catch {
                throw error.named(path)
            }
            let after = try status(of: file, from)
            if FileRevision(before) == FileRevision(after), before.changed == after.changed || after.linkCount == 0 {
                return (content, permissions, copiedAttributes)
            }
        }
        throw CommandFailure("changed during each of \(Self.attempts) attempts to copy it")
    }

    /// The size and checksum of a file below a directory; links are not followed.
    ///
    /// - Throws: ``SourceFailure`` if the file cannot be read, ``CommandFailure`` if interrupted.
    func content(of item: POSIXPath, in directory: ConfinedDirectory) throws -> Content {
        let source = try open(item, in: directory)
        defer { fileSystem.discard(source) }
        return try read(source, directory.path.appending(item)) { (_) throws(FileSystemError) in }
    }

    private func open(_ item: POSIXPath, in directory: ConfinedDirectory) throws(SourceFailure) -> Descriptor {
        try reading(directory.path.appending(item)) { () throws(FileSystemError) -> Descriptor in
            let (parent, name) = try directory.openParent(of: item)
            defer { fileSystem.discard(parent) }
            return try fileSystem.openRegularFile(name, at: parent).descriptor
        }
    }

    private func status(of source: Descriptor, _ path: POSIXPath) throws(SourceFailure) -> FileStatus {
        try reading(path) { () throws(FileSystemError) in try fileSystem.status(of: .descriptor(source)) }
    }

    /// Reads a file to its end, and calls `body` with each piece.
    private func read(
        _ source: Descriptor, _ path: POSIXPath, _ body: ([UInt8]) throws(FileSystemError) -> Void
    ) throws -> Content {
        var hash = SHA256()
        var offset: Int64 = 0
        while true {
            try Interruption.check()
            let piece = try reading(path) { () throws(FileSystemError) in
                try fileSystem.readBytes(of: source, at: offset, count: Self.pieceSize)
            }
            guard !piece.isEmpty else { break }
            hash.update(data: piece)
            try body(piece)
            offset += Int64(piece.count)
        }
        return Content(bytes: offset, sha256: BackupManifest.hexadecimal(hash.finalize()))
    }

    /// Calls `body`; converts its error to the failure of the file that is read.
    private func reading<Result>(
        _ path: POSIXPath, _ body: () throws(FileSystemError) -> Result
    ) throws(SourceFailure) -> Result {
        do throws(FileSystemError) { return try body() } catch { throw SourceFailure(error: error.named(path)) }
    }
}
