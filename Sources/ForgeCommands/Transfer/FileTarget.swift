import Crypto
import ForgeStorage
import Foundation
import SystemPackage

/// The destination of files: a file store, or an ordinary directory.
struct FileTarget: Sendable {
    let root: POSIXPath
    /// Nil for an ordinary directory.
    let store: DiskFileStore?
    private let fileSystem = SystemFileSystem()
    private let flush = BulkFlush()

    init(_ home: Home) throws {
        root = try POSIXPath(home.url)
        store =
            home.scheme == .files
            ? DiskFileStore(root: home.url, options: FileStoreOptions(durability: BulkFlush.durability)) : nil
    }

    func path(of item: POSIXPath) -> POSIXPath { root.appending(item) }

    /// The reason why an item cannot be stored under its path; nil if it can.
    func refusal(of item: POSIXPath) -> String? {
        guard store != nil else { return nil }
        guard let key = String(validating: item) else { return "the name is not valid UTF-8" }
        do {
            _ = try RelativeKey(key)
            return nil
        } catch {
            return "\(error)"
        }
    }

    /// Opens what is at the path of an item, following no link below the root; nil if there is nothing, or if it cannot be
    /// opened: the write reports why.
    func open(_ item: POSIXPath) -> Descriptor? {
        do throws(FileSystemError) {
            return try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
                try fileSystem.open(
                    item, at: root, .readOnly, options: [.noFollow, .nonBlocking], permissions: [],
                    resolution: Self.below)
            }
        } catch {
            return nil
        }
    }

    /// What identifies a file.
    struct Identity: Equatable {
        let device: UInt64
        let inode: UInt64
    }

    /// The identity of what is at the path of an item; nil if there is nothing.
    func identity(of item: POSIXPath) -> Identity? { Self.identity(at: path(of: item), on: fileSystem) }

    static func identity(at path: POSIXPath, on fileSystem: SystemFileSystem) -> Identity? {
        do throws(FileSystemError) {
            let status = try fileSystem.status(path)
            return Identity(device: status.device, inode: status.inode)
        } catch {
            return nil
        }
    }

    /// Copies a file to its path, atomically.
    func copy(_ file: POSIXPath, to item: POSIXPath) async throws {
        try await write(file, to: item)
        try includeInFlush(item)
    }

    /// Has the file system of an item flushed at the end.
    func includeInFlush(_ item: POSIXPath) throws(FileSystemError) {
        try flush.include(path(of: item).splitLast().parent)
    }

    /// Waits until everything that was copied is on its device.
    func finish() throws {
        try flush.finish()
    }

    private func write(_ file: POSIXPath, to item: POSIXPath) async throws {
        guard let store else { return try replace(item, by: file) }
        let source = try fileSystem.open(file, .readOnly, options: [.noFollow, .nonBlocking])
        defer { fileSystem.discard(source) }
        let attributes = try attributes(of: source, item)
        if let content = try smallContent(of: source) {
            try await store.save(content, to: item.shown, if: .always, durability: nil, attributes: attributes)
        } else if attributes.isEmpty {
            try await store.copy(from: URL(file), to: item.shown, overwrite: true)
        } else {
            try await store.write(to: item.shown, attributes: attributes) { writer in
                let before = try fileSystem.status(of: .descriptor(source))
                var offset: Int64 = 0
                while true {
                    let piece = try fileSystem.readBytes(of: source, at: offset, count: 1 << 20)
                    guard !piece.isEmpty else { break }
                    try await writer.write(Data(piece))
                    offset += Int64(piece.count)
                }
                guard FileRevision(try fileSystem.status(of: .descriptor(source))) == FileRevision(before) else {
                    throw FileStoreError(.invalidSource(.changed), .copy, key: item.shown)
                }
            }
        }
    }

    /// The attributes that a store has given a file.
    private func attributes(of source: Descriptor, _ item: POSIXPath) throws -> [String: String] {
        try fileSystem.fileAttributes(of: source).mapValues { bytes in
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw FileStoreError(.undecodable, .copy, key: item.shown)
            }
            return text
        }
    }

    /// Creates the directory that an item of an ordinary directory is put into.
    func prepare(_ parent: POSIXPath) throws(FileSystemError) {
        guard store == nil else { return }
        try fileSystem.createDirectories(
            root, at: .workingDirectory, permissions: .ownerReadWriteExecute, resolution: [])
        guard !parent.isEmpty else { return }
        try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
            _ = try fileSystem.createDirectories(
                parent, at: root, permissions: .ownerReadWriteExecute, resolution: Self.below)
        }
    }

    /// The content of a short regular file, which a store saves without a switch of threads; nil for any other file,
    /// and for one that changed while it was read.
    private func smallContent(of source: Descriptor) throws(FileSystemError) -> Data? {
        let limit = 1 << 16
        let before = try fileSystem.status(of: .descriptor(source))
        guard before.type == .regular, before.sizeInBytes <= limit else { return nil }
        let bytes = try fileSystem.readBytes(of: source, at: 0, count: limit + 1)
        let after = try fileSystem.status(of: .descriptor(source))
        return FileRevision(before) == FileRevision(after) && bytes.count == Int(after.sizeInBytes) ? Data(bytes) : nil
    }

    func delete(_ item: POSIXPath) async throws {
        try includeInFlush(item)
        if let store { return try await store.delete(item.shown) }
        let (parent, name) = item.splitLast()
        try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
            try withParent(parent, at: root) { (directory) throws(FileSystemError) in
                try fileSystem.unlink(name, at: directory)
            }
        }
    }

    // MARK: Directories

    /// Writes a copy under a temporary name, which an interrupted attempt to copy the same source has used too.
    private func replace(_ item: POSIXPath, by file: POSIXPath) throws {
        let source = try fileSystem.open(file, .readOnly, options: [.noFollow, .nonBlocking])
        defer { fileSystem.discard(source) }
        let status = try fileSystem.status(of: .descriptor(source))
        let (parent, name) = item.splitLast()
        try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
            try withParent(parent, at: root) { (directory) throws(FileSystemError) in
                try fileSystem.replaceFile(
                    name, at: directory, .replacing, permissions: status.permissions.intersection(.all),
                    durability: BulkFlush.durability, temporary: Self.temporaryName(file, status),
                    whileMoving: { (move) throws(FileSystemError) in try move() }
                ) { (target) throws(FileSystemError) in
                    try fileSystem.copyContent(of: source, to: target)
                    try fileSystem.setFileAttributes(fileSystem.fileAttributes(of: source), of: target)
                    let now = try fileSystem.status(of: .descriptor(source))
                    guard FileRevision(now) == FileRevision(status) else {
                        throw FileSystemError(.read, .resourceTemporarilyUnavailable, path: file)
                    }
                }
            }
        }
    }

    private static let below: PathResolution = [.beneath, .noSymbolicLinks]

    /// Opens a directory below the root, without following links.
    private func withParent(
        _ parent: POSIXPath, at root: Descriptor, _ body: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard !parent.isEmpty else { return try body(root) }
        try fileSystem.withDirectory(parent, at: root, resolution: Self.below, body)
    }

    /// Derived from the identity of the source, so that a changed source has another one.
    private static func temporaryName(_ file: POSIXPath, _ status: FileStatus) -> POSIXPath {
        let identity = Array(file.bytes) + Array("\n\(FileRevision(status))".utf8)
        let digest = SHA256.hash(data: identity).prefix(8).map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        return POSIXPath(POSIXPath.temporaryPrefix + digest.joined())
    }
}

extension FilePermissions {
    /// All permission bits without set-user-ID, set-group-ID and sticky bit.
    fileprivate static let all = FilePermissions(rawValue: 0o777)
}
