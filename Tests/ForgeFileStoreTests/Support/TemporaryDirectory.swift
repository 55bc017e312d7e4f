import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage

/// A directory for one test, removed with its tree when the object is released.
final class TemporaryDirectory: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory
            .appendingPathComponent("ForgeFileStoreTests-\(UUID().uuidString)", isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        do {
            try FileManager.default.removeItem(at: url)
        } catch {
            print("left over: \(url.path): \(error)")
        }
    }

    func path(_ relative: String) -> POSIXPath { POSIXPath(url.path + "/" + relative) }

    func url(_ relative: String) -> URL { URL(path(relative)) }

    /// Writes a file, creating its parent directories, without a store.
    func write(_ text: String, to relative: String) throws {
        let url = url(relative)
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
    }

    func read(_ relative: String) throws -> String {
        String(decoding: try Data(contentsOf: url(relative)), as: UTF8.self)
    }

    /// The random part of a store's temporary names, from a journal in its root.
    func journal(_ relative: String) throws -> (id: String, bytes: Data) {
        let bytes = try Data(contentsOf: url(relative))
        return (String(decoding: bytes.dropFirst(12).prefix(16), as: UTF8.self), bytes)
    }

    /// All names below a directory with type, mode, link count, and content or target, in order.
    func tree(_ relative: String) throws -> [String] {
        let fileSystem = SystemFileSystem()
        func visit(_ path: POSIXPath, _ lines: inout [String]) throws {
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            var line = "\(path) \(status.type) \(status.permissions) \(status.linkCount)"
            switch status.type {
            case .regular: line += " \(try fileSystem.readFile(path))"
            case .symbolicLink: line += " \(try fileSystem.readSymbolicLink(path))"
            default: break
            }
            lines.append(line)
            guard status.type == .directory else { return }
            let entries = try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
                try fileSystem.entries(of: directory)
            }
            for entry in entries.sorted(by: { "\($0.name)" < "\($1.name)" }) {
                try visit(path.appending(entry.name), &lines)
            }
        }
        var lines: [String] = []
        try visit(path(relative), &lines)
        return lines
    }
}

/// The stores that every check runs on.
enum StoreKind: String, CaseIterable, CustomStringConvertible {
    case diskStoreOnDisk = "DiskFileStore on the disk"
    case diskStoreInMemory = "DiskFileStore on InMemoryFileSystem"
    case inMemoryStore = "InMemoryFileStore"

    var description: String { rawValue }

    /// The capabilities of this store.
    var capabilities: Set<ConformanceCapability> {
        self == .inMemoryStore ? [.emptyDirectories] : [.emptyDirectories, .fileURLs]
    }

    /// Whether the file system of the store has attributes; prints a notice if not.
    func hasAttributes() async throws -> Bool {
        var hasAttributes = true
        try await withStore { store in
            do {
                try await store.save(Data(), to: "probe", attributes: ["a": "1"])
            } catch let error as FileStoreError where error.code == .unsupported {
                hasAttributes = false
                print("NOT RUN: attributes of files of \(self)")
            }
        }
        return hasAttributes
    }

    /// Calls `body` with an empty store.
    func withStore(_ body: (any StreamingFileStoring) async throws -> Void) async throws {
        switch self {
        case .diskStoreOnDisk:
            let directory = try TemporaryDirectory()
            try await body(DiskFileStore(root: directory.url("store")))
            withExtendedLifetime(directory) {}
        case .diskStoreInMemory:
            let store = DiskFileStore(
                root: URL(filePath: "/data/store"), fileSystem: InMemoryFileSystem(), sources: SystemFileSystem())
            try await body(store)
        case .inMemoryStore:
            try await body(InMemoryFileStore())
        }
    }
}

/// Whether an error is that of a file store with this code.
func hasCode(_ code: FileStoreError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? FileStoreError)?.code == code }
}
