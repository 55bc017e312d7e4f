import Crypto
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// A copy under a temporary name in the directory of its destination.
///
/// The name is derived from the path, size and modification time of the source, so that the next copy of the same
/// source continues an interrupted one, and a copy of a changed source starts from the beginning. The file is locked:
/// if two processes copy one source to one directory at the same time, the second one uses a random name.
final class PartialFile {
    /// The minimum size of the source, in bytes, for which an interrupted copy is kept.
    private static let minimumKeptSize: Int64 = 1 << 23
    /// The number of bytes of one read from a server.
    private static let pieceSize: Int64 = 1 << 23

    private let name: POSIXPath
    private let directory: Descriptor
    private let descriptor: Descriptor
    /// Whether an earlier, interrupted copy left the file.
    private let isLeftover: Bool
    private let fileSystem: SystemFileSystem

    /// Begins or continues the copy of a file.
    convenience init(
        of file: SourceFile, in directory: Descriptor, on fileSystem: SystemFileSystem
    ) throws(FileSystemError) {
        let identity = Array(file.path.bytes) + Array("\n\(FileRevision(file.status))".utf8)
        try self.init(of: identity, in: directory, on: fileSystem)
    }

    /// Begins or continues the copy of a file to a directory; `identity` distinguishes its content from any other.
    init(of identity: [UInt8], in directory: Descriptor, on fileSystem: SystemFileSystem) throws(FileSystemError) {
        self.directory = directory
        self.fileSystem = fileSystem
        let name = Self.name(for: identity)
        if let (descriptor, isLeftover) = try Self.open(name, in: directory, fileSystem) {
            self.name = name
            self.descriptor = descriptor
            self.isLeftover = isLeftover
        } else {
            (self.name, descriptor) = try fileSystem.createTemporary(
                at: directory, .readWrite, permissions: .ownerReadWrite)
            isLeftover = false
        }
    }

    deinit {
        fileSystem.discard(descriptor)
    }

    private static func name(for identity: [UInt8]) -> POSIXPath {
        let digest = SHA256.hash(data: identity).prefix(8).map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        return POSIXPath(POSIXPath.temporaryPrefix + digest.joined())
    }

    /// Whether a name has the form of the name of a partial file.
    static func isName(_ name: POSIXPath) -> Bool {
        let digest = name.bytes.dropFirst(POSIXPath.temporaryPrefix.utf8.count)
        return name.bytes.starts(with: POSIXPath.temporaryPrefix.utf8) && digest.count == 16
            && digest.allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
    }

    /// Creates the file, or opens the one that an earlier copy left.
    ///
    /// - Returns: The file; nil if it cannot be used: another process writes it, it belongs to another user, or it is
    ///   not a regular file with one name.
    private static func open(
        _ name: POSIXPath, in directory: Descriptor, _ fileSystem: SystemFileSystem
    ) throws(FileSystemError) -> (Descriptor, isLeftover: Bool)? {
        var isLeftover = false
        let descriptor: Descriptor
        do throws(FileSystemError) {
            descriptor = try fileSystem.open(
                name, at: directory, .readWrite, options: [.create, .exclusiveCreate, .noFollow],
                permissions: .ownerReadWrite)
        } catch  where error.errno == .fileExists {
            isLeftover = true
            do throws(FileSystemError) {
                descriptor = try fileSystem.open(
                    name, at: directory, .readWrite, options: [.noFollow, .nonBlocking], permissions: [])
            } catch _ {
                return nil  // It belongs to another user, or is not a regular file.
            }
        }
        do throws(FileSystemError) {
            try fileSystem.lock(descriptor, .exclusive, waiting: false)
            let (status, named) = (
                try fileSystem.status(of: .descriptor(descriptor)),
                try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
            )
            // Another copy may have completed and renamed the file before the lock, or it is another program's.
            if status.type == .regular, status.linkCount == 1, status.inode == named.inode {
                return (descriptor, isLeftover)
            }
        } catch _ {}
        fileSystem.discard(descriptor)
        return nil
    }

    /// Writes the content of the source, and renames the file to its final name.
    ///
    /// - Parameters:
    ///   - file: The source.
    ///   - final: The final name in the directory.
    ///   - isExpected: Whether a file with that name probably exists.
    /// - Throws: ``SourceFailure``, `FileSystemError` of the target, ``CommandFailure`` if interrupted. The partial
    ///   file is removed, unless it is long and the copy was interrupted or the source became unreachable.
    func finish(_ file: SourceFile, as final: POSIXPath, isExpected: Bool) throws {
        do {
            try setMode()
            try fill(from: file)
            try moveIntoPlace(final, isExpected: isExpected)
        } catch {
            removeUnlessKept(after: error, sizeInBytes: file.status.sizeInBytes)
            throw error
        }
    }

    /// Gives a new file its mode, whatever the umask.
    private func setMode() throws(FileSystemError) {
        guard !isLeftover, try fileSystem.status(of: .descriptor(descriptor)).permissions != .ownerReadWrite else {
            return
        }
        try fileSystem.setPermissions(.ownerReadWrite, of: .descriptor(descriptor))
    }

    private func moveIntoPlace(_ final: POSIXPath, isExpected: Bool) throws(FileSystemError) {
        try fileSystem.moveIntoPlace(
            name, to: final, at: directory, .replacing, BulkFlush.durability, isExpected: isExpected)
        try BulkFlush.flush(directory, on: fileSystem)
    }

    private func removeUnlessKept(after error: any Error, sizeInBytes: Int64) {
        let isKept =
            [.interrupted, .unreachable].contains(ExitStatus(of: error)) && sizeInBytes >= Self.minimumKeptSize
        guard !isKept else { return }
        // The first failure is the one to report.
        do { try fileSystem.unlink(name, at: directory) } catch _ {}
    }

    // MARK: From a server

    /// Writes the content of a file on a server, compares its checksum, and renames the file to its final name.
    ///
    /// - Parameters:
    ///   - file: The source.
    ///   - final: The final name in the directory.
    ///   - isExpected: Whether a file with that name probably exists.
    /// - Throws: The error of the source, ``CopyDamage``, `FileSystemError` of the target. The partial file is kept or
    ///   removed as by ``finish(_:as:isExpected:)-(SourceFile,_,_)``.
    func finish(_ file: any CopiedFile, as final: POSIXPath, isExpected: Bool) async throws {
        do {
            try setMode()
            try await fill(from: file)
            try moveIntoPlace(final, isExpected: isExpected)
        } catch {
            removeUnlessKept(after: error, sizeInBytes: file.sizeInBytes)
            throw error
        }
    }

    private func fill(from file: any CopiedFile) async throws {
        // Without a known checksum, the leftover cannot be verified to be the beginning of this content.
        if isLeftover, let expected = file.knownChecksum,
            try await write(file, from: leftoverLength(for: file), verifying: expected)
        {
            return
        }
        guard try await write(file, from: 0, verifying: file.checksum()) else { throw CopyDamage() }
    }

    /// The number of bytes that an earlier copy wrote, at most the size of the source.
    private func leftoverLength(for file: any CopiedFile) throws(FileSystemError) -> Int64 {
        min(try fileSystem.status(of: .descriptor(descriptor)).sizeInBytes, file.sizeInBytes)
    }

    /// Writes the content from the offset `start` to the end; returns whether the whole file then has the checksum.
    private func write(
        _ file: any CopiedFile, from start: Int64, verifying checksum: String
    ) async throws -> Bool {
        try fileSystem.truncate(.descriptor(descriptor), to: start)
        var hash = ContentHash()
        var offset: Int64 = 0
        while offset < start {
            try Interruption.check()
            let piece = try fileSystem.readBytes(
                of: descriptor, at: offset, count: Int(min(start - offset, Self.pieceSize)))
            guard !piece.isEmpty else { return false }
            hash.update(piece)
            offset += Int64(piece.count)
        }
        while offset < file.sizeInBytes {
            try Interruption.check()
            let piece = try await file.read(offset..<min(offset + Self.pieceSize, file.sizeInBytes))
            guard !piece.isEmpty else { return false }
            try fileSystem.writeBytes([UInt8](piece), to: descriptor, at: offset)
            hash.update(piece)
            offset += Int64(piece.count)
        }
        guard hash.finish() == checksum else { return false }
        try BulkFlush.flush(descriptor, on: fileSystem)
        return true
    }

    private func fill(from file: SourceFile) throws {
        var offset: Int64 = 0
        if isLeftover {
            // After a power cut, the end of the leftover may be missing or zero.
            offset = try file.commonLength(with: descriptor)
            try fileSystem.truncate(.descriptor(descriptor), to: offset)
        }
        if offset == 0, !file.mayHaveHoles, let content = try file.shortContent() {
            try fileSystem.writeBytes(content, to: descriptor)
        } else {
            let copy = ContentCopy(
                of: file.descriptor, file.status, on: fileSystem, to: descriptor, startingAt: offset)
            while try next(copy) { try Interruption.check() }
        }
        let permissions = file.status.permissions.intersection(.all)
        if permissions != .ownerReadWrite { try fileSystem.setPermissions(permissions, of: .descriptor(descriptor)) }
        try fileSystem.setFileAttributes(file.attributes(), of: descriptor)
        try BulkFlush.flush(descriptor, on: fileSystem)
        try file.requireUnchanged()
    }

    private func next(_ copy: ContentCopy) throws -> Bool {
        guard !copy.isAtKnownEnd else { return false }
        do throws(ContentCopy.Failure) {
            return try copy.next()
        } catch {
            switch error {
            case .source(let error): throw SourceFailure(error: error)
            case .target(let error): throw error
            }
        }
    }
}

/// The content that was read from a server does not match the checksum of the file: it was replaced or damaged.
struct CopyDamage: Error, CustomStringConvertible {
    var description: String { "the content that was read does not match the checksum of the file" }
}

extension FilePermissions {
    /// All permission bits without set-user-ID, set-group-ID and sticky bit.
    static let all = FilePermissions(rawValue: 0o777)
}

/// Makes the many files of one command durable with one flush per file system, after the last write.
///
/// Used where the operating system can flush a whole file system and wait for the end (`syncfs`, Linux); elsewhere each
/// file is flushed by itself.
final class BulkFlush: Sendable {
    #if os(Linux)
    /// The durability with which each file is written: none, because ``finish()`` flushes all files.
    static let durability = Durability.none
    #else
    /// The durability with which each file is written: full, because no system call flushes a whole file system and
    /// waits.
    static let durability = Durability.full
    #endif

    private let fileSystem = SystemFileSystem()
    /// An open directory of each file system to flush, by device number.
    private let directories = Mutex<[UInt64: Descriptor]>([:])

    deinit {
        for directory in directories.withLock({ $0.values }) { fileSystem.discard(directory) }
    }

    /// Registers the file system of an existing directory for the flush.
    func include(_ directory: POSIXPath) throws(FileSystemError) {
        #if os(Linux)
        let device = try fileSystem.status(directory).device
        try directories.withLock { (directories) throws(FileSystemError) in
            guard directories[device] == nil else { return }
            directories[device] = try fileSystem.open(directory, .readOnly, options: [.directory])
        }
        #endif
    }

    /// Flushes an open file or directory, where ``finish()`` does not.
    static func flush(_ descriptor: Descriptor, on fileSystem: SystemFileSystem) throws(FileSystemError) {
        #if !os(Linux)
        try fileSystem.synchronize(descriptor, .full)
        #endif
    }

    /// Flushes the registered file systems; all files are durable on return.
    ///
    /// - Throws: `FileSystemError` if a flush failed; files may be lost in a power cut then.
    func finish() throws(FileSystemError) {
        #if os(Linux)
        for directory in directories.withLock({ Array($0.values) }) {
            try fileSystem.synchronizeFileSystem(of: directory)
        }
        #endif
    }
}
