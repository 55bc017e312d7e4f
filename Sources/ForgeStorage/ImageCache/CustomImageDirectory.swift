import ForgeFileSystem
import Foundation

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
