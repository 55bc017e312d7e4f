import Crypto
import ForgeStorage
import SystemPackage

/// A copy under a temporary name in the directory of its destination.
///
/// The name is derived from the source's path, size and time, so that the next copy of the same source continues what
/// an interrupted one has written, and a changed source begins anew. The file is locked: of two copies of one source to
/// one place at the same time, the second one uses a random name.
final class PartialFile {
    /// From how many bytes on an interrupted copy is kept.
    private static let keptSize: Int64 = 1 << 23

    private let name: POSIXPath
    private let directory: Descriptor
    private let descriptor: Descriptor
    /// Whether an earlier copy has left it.
    private let isLeftover: Bool
    private let fileSystem: SystemFileSystem

    init(of file: SourceFile, in directory: Descriptor, on fileSystem: SystemFileSystem) throws(FileSystemError) {
        self.directory = directory
        self.fileSystem = fileSystem
        let name = Self.name(for: file)
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

    private static func name(for file: SourceFile) -> POSIXPath {
        let identity = Array(file.path.bytes) + Array("\n\(FileRevision(file.status))".utf8)
        let digest = SHA256.hash(data: identity).prefix(8).map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        return POSIXPath(POSIXPath.temporaryPrefix + digest.joined())
    }

    /// Whether a file with a name was made by a copy.
    static func isName(_ name: POSIXPath) -> Bool {
        let digest = name.bytes.dropFirst(POSIXPath.temporaryPrefix.utf8.count)
        return name.bytes.starts(with: POSIXPath.temporaryPrefix.utf8) && digest.count == 16
            && digest.allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
    }

    /// Creates the file, or opens what an earlier copy has left; nil if another process is writing it.
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
                return nil  // Of another user, or no file at all.
            }
        }
        do throws(FileSystemError) {
            try fileSystem.lock(descriptor, .exclusive, waiting: false)
            let (status, named) = (
                try fileSystem.status(of: .descriptor(descriptor)),
                try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
            )
            // Another copy may have taken and renamed it before the lock; or it is of another program.
            if status.type == .regular, status.linkCount == 1, status.inode == named.inode {
                return (descriptor, isLeftover)
            }
        } catch _ {}
        fileSystem.discard(descriptor)
        return nil
    }

    /// Writes the content of the source, and gives the file its name.
    ///
    /// - Parameters:
    ///   - file: The source.
    ///   - final: The name in the directory.
    ///   - isExpected: Whether there probably is a file with that name.
    /// - Throws: ``SourceFailure``, `FileSystemError` of the target, ``CommandFailure`` if interrupted: the part of a
    ///   long file that was written is kept then, and the partial file removed otherwise.
    func finish(_ file: SourceFile, as final: POSIXPath, isExpected: Bool) throws {
        do {
            try fill(from: file)
            try fileSystem.moveIntoPlace(
                name, to: final, at: directory, .replacing, BulkFlush.durability, isExpected: isExpected)
            if BulkFlush.durability == .full { try fileSystem.synchronize(directory, .full) }
        } catch {
            if (error as? CommandFailure)?.status != .interrupted || file.status.sizeInBytes < Self.keptSize {
                // The first failure is the one to report.
                do { try fileSystem.unlink(name, at: directory) } catch _ {}
            }
            throw error
        }
    }

    private func fill(from file: SourceFile) throws {
        var offset: Int64 = 0
        if isLeftover {
            // After a power cut its end may be missing or zero.
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
        if let level = BulkFlush.durability.contentLevel { try fileSystem.synchronize(descriptor, level) }
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

extension FilePermissions {
    /// All permission bits without set-user-ID, set-group-ID and sticky bit.
    static let all = FilePermissions(rawValue: 0o777)
}
