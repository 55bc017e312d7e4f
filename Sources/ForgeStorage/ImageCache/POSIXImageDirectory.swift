import ForgeFileSystem
import Foundation
import SystemPackage

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
        try fileSystem.makeStoreDirectories(try POSIXPath(url))
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
        let file = try fileSystem.retryingInterrupts { () throws(FileSystemError) in
            try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
        }
        defer { fileSystem.discard(file) }
        guard try fileSystem.status(of: .descriptor(file)).type == .regular else { throw ForeignEntry() }
        return try fileSystem.withPathInErrors(path) { () throws(FileSystemError) in
            Data(try fileSystem.readContents(of: file, maximumSizeInBytes: ImageFile.maximumSizeInBytes))
        }
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
        do {
            try withDirectory { directory in
                if let status = try status(of: name, at: directory) {
                    guard status.type == .regular else { throw ForeignEntry() }
                    try fileSystem.unlink(POSIXPath(name), at: directory)
                }
                // Also if there is none: a killed process may have removed it without a flush.
                try fileSystem.synchronizeDirectory(directory)
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return
        }
    }

    func synchronize() throws {
        do {
            try withDirectory { directory in try fileSystem.synchronizeDirectory(directory) }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return
        }
    }

    func names() throws -> [String] {
        do {
            return try withDirectory { directory in
                try fileSystem.entries(of: directory).filter { $0.type == .regular }
                    .compactMap { String(validating: $0.name) }
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return []
        }
    }

    func sizeInBytes(of name: String) throws -> Int? {
        do {
            return try withDirectory { directory in
                guard let status = try status(of: name, at: directory), status.type == .regular else { return nil }
                return Int(clamping: status.sizeInBytes)
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    func files(_ names: [String]) throws -> [FileIndex.Listed] {
        guard !names.isEmpty else { return [] }
        do {
            return try withDirectory { directory in
                try names.compactMap { name -> (file: FileIndex.Listed, modified: FileTime)? in
                    guard let status = try status(of: name, at: directory), status.type == .regular else { return nil }
                    let file = FileIndex.Listed(name: name, sizeInBytes: Int(clamping: status.sizeInBytes))
                    return (file, status.modified)
                }.sorted { $0.modified < $1.modified }.map(\.file)
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return []
        }
    }

    private func withDirectory<Result>(_ body: (Descriptor) throws -> Result) throws -> Result {
        let directory = try fileSystem.open(try POSIXPath(url), .readOnly, options: [.directory])
        defer { fileSystem.discard(directory) }
        return try body(directory)
    }

    private func status(of name: String, at directory: Descriptor) throws(FileSystemError) -> FileStatus? {
        do {
            return try fileSystem.status(POSIXPath(name), at: directory, followsSymbolicLinks: false)
        } catch let error where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// The error itself, or its cause if it was injected (`InMemoryFileSystem.readError` or `writeError`), because
    /// `read(from:)` and `write(_:to:)` throw that unchanged.
    private func cause(of error: FileSystemError) -> any Error {
        error.errno == .ioError ? error.underlying ?? error : error
    }
}
