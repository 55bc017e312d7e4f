import ForgeCoding
import ForgeFileSystem
package import Foundation
import SystemPackage

/// The directory of an image cache, with one file per image.
protocol ImageDirectory: Sendable {
    /// Creates the directory if it is missing, not yet durably.
    func create() throws

    /// The content of a file; nil if there is none.
    func content(of name: String) throws -> Data?

    /// Stores a file, creating the directory if it is missing.
    func store(_ content: Data, as name: String) throws

    /// Removes a file, not yet durably; succeeds if the file does not exist.
    func remove(_ name: String) throws

    /// Flushes the directory, because other processes may have removed files without a flush. Does nothing if the file
    /// system cannot flush a directory.
    func synchronize() throws

    /// The names of all files, in no particular order.
    func names() throws -> [String]

    /// The size of a file; nil if there is none.
    func sizeInBytes(of name: String) throws -> Int?

    /// The files with these names, the least recently modified first if the file system knows times; without those that
    /// are missing or foreign.
    func files(_ names: [String]) throws -> [FileIndex.Listed]
}

/// Thrown for a name that belongs to an entry that no image cache creates, such as a symbolic link.
struct ForeignEntry: Error {}

/// An ``ImageDirectory`` on a `POSIXFileSystem`: it follows no symbolic link, does not block on FIFOs, and accesses
/// regular files only.
struct POSIXImageDirectory: ImageDirectory {
    let fileSystem: any POSIXFileSystem
    let url: URL

    /// Records temporary files, so that the next process that stores an image removes those of a killed one.
    private let root: Result<LazyStoreDirectory, FileSystemError>

    init(fileSystem: any POSIXFileSystem, url: URL) {
        self.fileSystem = fileSystem
        self.url = url
        root = Result { () throws(FileSystemError) in
            LazyStoreDirectory(try POSIXPath(url), of: .images, on: fileSystem, turnPatience: nil)
        }
    }

    func create() throws {
        // The first image makes it durable, when something depends on it.
        try fileSystem.makeStoreDirectories(try POSIXPath(url), isDurable: false)
    }

    func content(of name: String) throws -> Data? {
        let path = try POSIXPath(url).appending(POSIXPath(name))
        do {
            return try content(at: path)
        } catch let error as FileSystemError {
            switch error.errno {
            case .noSuchFileOrDirectory: return nil
            // With these options `open(2)` fails with `ELOOP` for a symbolic link and with `ENXIO` for a socket.
            case .tooManySymbolicLinkLevels, .noSuchAddressOrDevice: throw ForeignEntry()
            default: throw cause(of: error)
            }
        }
    }

    private func content(at path: POSIXPath) throws -> Data {
        let file = try OpenFile(path, options: [.noFollow, .nonBlocking], on: fileSystem)
        guard file.status.type == .regular else { throw ForeignEntry() }
        return Data(try file.contents(maximumSizeInBytes: ImageFile.maximumSizeInBytes))
    }

    func store(_ content: Data, as name: String) throws {
        let key = try RelativeKey(component: name)
        do throws(FileSystemError) {
            try withBytes(of: content) { (bytes) throws(FileSystemError) in
                try root.get().write { (directory) throws(FileSystemError) in
                    // A link that is planted after the check is replaced, not followed.
                    try directory.replace(key, with: bytes)
                }
            }
        } catch {
            switch error.errno {
            case .isDirectory, .tooManySymbolicLinkLevels, .notSupported: throw ForeignEntry()
            default: throw cause(of: error)
            }
        }
    }

    func remove(_ name: String) throws {
        guard let directory = try directory(), let status = try directory.statusIfPresent(POSIXPath(name)) else {
            return
        }
        guard status.type == .regular else { throw ForeignEntry() }
        do throws(FileSystemError) {
            try directory.unlink(POSIXPath(name))
        } catch  where error.errno == .noSuchFileOrDirectory {
            return
        }
    }

    func synchronize() throws { try directory()?.synchronize() }

    func names() throws -> [String] {
        let entries = try directory()?.entries() ?? []
        return entries.filter { $0.type == .regular }.compactMap { String(validating: $0.name) }
    }

    func sizeInBytes(of name: String) throws -> Int? {
        guard let status = try directory()?.statusIfPresent(POSIXPath(name)), status.type == .regular else {
            return nil
        }
        return Int(clamping: status.sizeInBytes)
    }

    func files(_ names: [String]) throws -> [FileIndex.Listed] {
        guard !names.isEmpty, let directory = try directory() else { return [] }
        return try names.compactMap { name -> (file: FileIndex.Listed, modified: FileTime)? in
            guard let status = try directory.statusIfPresent(POSIXPath(name)), status.type == .regular else {
                return nil
            }
            return (FileIndex.Listed(name: name, sizeInBytes: Int(clamping: status.sizeInBytes)), status.modified)
        }.sorted { $0.modified < $1.modified }.map(\.file)
    }

    /// Nil if there is no directory.
    private func directory() throws(FileSystemError) -> OpenDirectory? {
        do throws(FileSystemError) {
            return try OpenDirectory(try POSIXPath(url), on: fileSystem)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// The error itself, or its cause if it was injected (`InMemoryFileSystem.readError` or `writeError`), because
    /// `read(from:)` and `write(_:to:)` throw that unchanged.
    private func cause(of error: FileSystemError) -> any Error {
        error.errno == .ioError ? error.underlying ?? error : error
    }
}

/// An ``ImageDirectory`` on a custom file system that is only a `FileSystemProtocol`.
struct CustomImageDirectory: ImageDirectory {
    let fileSystem: any FileSystemProtocol
    let url: URL

    func create() throws {
        try fileSystem.createDirectory(at: url, withIntermediateDirectories: true)
    }

    func content(of name: String) throws -> Data? {
        let file = file(name)
        do {
            return try fileSystem.read(from: file)
        } catch {
            guard error.indicatesMissingFile ?? !fileSystem.fileExists(atPath: file.path) else { throw error }
            return nil
        }
    }

    func store(_ content: Data, as name: String) throws {
        do {
            try fileSystem.write(content, to: file(name))
        } catch {
            guard !fileSystem.fileExists(atPath: url.path) else { throw error }
            try create()
            try fileSystem.write(content, to: file(name))
        }
    }

    func remove(_ name: String) throws {
        let file = file(name)
        do {
            try fileSystem.removeItem(at: file)
        } catch {
            guard error.indicatesMissingFile ?? !fileSystem.fileExists(atPath: file.path) else { throw error }
        }
    }

    /// Does nothing: `FileSystemProtocol` cannot flush a directory.
    func synchronize() {}

    func names() throws -> [String] {
        let found: [URL]
        do {
            found = try fileSystem.contentsOfDirectory(at: url)
        } catch {
            guard error.indicatesMissingFile ?? !fileSystem.fileExists(atPath: url.path) else { throw error }
            return []
        }
        return found.filter { !$0.hasDirectoryPath }.map(\.lastPathComponent)
    }

    /// Reads the file, because `FileSystemProtocol` has no method for its size.
    func sizeInBytes(of name: String) throws -> Int? {
        try content(of: name)?.count
    }

    /// In the order of `names`: `FileSystemProtocol` has no method for times.
    func files(_ names: [String]) throws -> [FileIndex.Listed] {
        try names.compactMap { name in
            try sizeInBytes(of: name).map { FileIndex.Listed(name: name, sizeInBytes: $0) }
        }
    }

    private func file(_ name: String) -> URL {
        url.appending(component: name, directoryHint: .notDirectory)
    }
}

extension Error {
    /// Whether the error means that the file is missing; nil for an error of an unknown type or domain.
    ///
    /// A custom file system may throw any error. On nil, callers fall back to `fileExists(atPath:)`, which is less
    /// reliable: `false` may also mean that the path could not be inspected.
    var indicatesMissingFile: Bool? {
        if let error = self as? FileSystemError, error.underlying == nil {
            return error.errno == .noSuchFileOrDirectory
        }
        // By domain: on Linux a cast to CocoaError or POSIXError succeeds for an error of any domain.
        let error = self as NSError
        switch error.domain {
        case NSCocoaErrorDomain:
            return error.code == CocoaError.Code.fileNoSuchFile.rawValue
                || error.code == CocoaError.Code.fileReadNoSuchFile.rawValue
        case NSPOSIXErrorDomain:
            return error.code == Int(Errno.noSuchFileOrDirectory.rawValue)
        default:
            return nil
        }
    }
}

/// The bytes of an image's file: magic, version, checksum, and the encoded image.
package enum ImageFile {
    /// The maximum size of a file that is read, 256 MiB.
    package static let maximumSizeInBytes = 256 << 20

    private static let magic = Array("FORGEIMG".utf8)
    private static let version: UInt32 = 1
    private static let checksumOffset = 12
    private static let headerLength = 16

    /// What follows the name of a key in the name of its file.
    package static let suffix = ".cache"

    static func content(of image: CachedImage) throws -> Data {
        let payload = try ValueCoder().encode(image)
        var content = Data(capacity: headerLength + payload.count)
        content.append(contentsOf: magic)
        content.append(contentsOf: version.littleEndianBytes)
        var checksum = CRC32C()
        checksum.update(content)
        checksum.update(payload)
        content.append(contentsOf: checksum.value.littleEndianBytes)
        content.append(contentsOf: payload)
        return content
    }

    package static func image(in content: Data) throws -> CachedImage {
        if content.first == UInt8(ascii: "{") { return try imageInJSON(content) }
        let header = [UInt8](content.prefix(headerLength))
        guard header.count == headerLength, header.starts(with: magic) else { throw ImageFileDamage.foreign }
        let version: UInt32 = header.littleEndian(at: magic.count)
        guard version <= Self.version else { throw ImageFileDamage.newerVersion(version) }
        let payload = [UInt8](content.dropFirst(headerLength))
        var checksum = CRC32C()
        checksum.update(header[..<checksumOffset])
        checksum.update(payload)
        guard checksum.value == header.littleEndian(at: checksumOffset, as: UInt32.self) else {
            throw ImageFileDamage.checksum
        }
        return try ValueCoder().decode(CachedImage.self, from: payload)
    }

    /// Decodes an image that a cache of JSON files has written with `JSONEncoder`.
    private static func imageInJSON(_ content: Data) throws -> CachedImage {
        do {
            return try JSONDecoder().decode(CachedImage.self, from: content)
        } catch {
            // The decoder's error may quote the content.
            throw ImageFileDamage.foreign
        }
    }
}
