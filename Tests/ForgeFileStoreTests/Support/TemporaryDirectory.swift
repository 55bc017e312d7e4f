import ForgeFileSystem
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
