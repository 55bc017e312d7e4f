import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

/// File operations in memory that record the paths of URLs that lead out of a directory, however they are decoded.
final class RecordingFileOperations: FileSystemProtocol {
    private let base: InMemoryFileSystem
    private let root: String
    private let paths = Mutex<[String]>([])

    init(_ base: InMemoryFileSystem, root: String) {
        self.base = base
        self.root = root
    }

    var outside: [String] { paths.withLock { $0 } }

    private func recorded(_ url: URL) -> URL {
        // Decoded without any refusal.
        var bytes: [UInt8] = []
        var encoded = url.absoluteURL.path(percentEncoded: true).utf8[...]
        while let byte = encoded.popFirst() {
            let escaped =
                byte == UInt8(ascii: "%") ? UInt8(String(decoding: encoded.prefix(2), as: UTF8.self), radix: 16) : nil
            if escaped != nil { encoded = encoded.dropFirst(2) }
            bytes.append(escaped ?? byte)
        }
        record(String(decoding: bytes, as: UTF8.self))
        return url
    }

    private func record(_ path: String) {
        var components: [Substring] = []
        for component in path.split(separator: "/") where component != "." {
            if component == ".." { components = components.dropLast() } else { components.append(component) }
        }
        let resolved = "/" + components.joined(separator: "/")
        if resolved != root, !resolved.hasPrefix(root + "/") { paths.withLock { $0.append(path) } }
    }

    func fileExists(atPath path: String) -> Bool { base.fileExists(atPath: path) }

    func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws {
        try base.createDirectory(at: recorded(url), withIntermediateDirectories: withIntermediateDirectories)
    }

    func write(_ data: Data, to url: URL) throws { try base.write(data, to: recorded(url)) }

    func read(from url: URL) throws -> Data { try base.read(from: recorded(url)) }

    func removeItem(at url: URL) throws { try base.removeItem(at: recorded(url)) }

    func contentsOfDirectory(at url: URL) throws -> [URL] { try base.contentsOfDirectory(at: recorded(url)) }
}

/// File operations by Foundation, as an app would write them from the documentation alone.
struct FoundationFileOperations: FileSystemProtocol {
    private func checked(_ url: URL) throws -> URL {
        let text = url.absoluteString.lowercased()
        guard url.isFileURL, ["", "localhost"].contains(url.host(percentEncoded: false) ?? ""), !text.contains("%00"),
            !text.contains("%2f")
        else { throw FileSystemError(.resolve, .invalidArgument) }
        var used = url.absoluteString.replacing("file://localhost/", with: "file:///")
        while used.count > "file:///".count, used.hasSuffix("/") { used.removeLast() }
        guard let url = URL(string: used) else { throw FileSystemError(.resolve, .invalidArgument) }
        return url
    }

    func fileExists(atPath path: String) -> Bool {
        !path.utf8.contains(0) && FileManager.default.fileExists(atPath: path)
    }

    func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws {
        try FileManager.default.createDirectory(
            at: checked(url), withIntermediateDirectories: withIntermediateDirectories)
    }

    func write(_ data: Data, to url: URL) throws {
        try data.write(to: target(of: checked(url)), options: .atomic)
    }

    /// Where the links at the end of a URL lead.
    private func target(of url: URL) throws -> URL {
        var url = url
        for _ in 0..<40 {
            // With a final slash, the path would be that of the link's target.
            let path = url.path(percentEncoded: false)
            let target: String
            do {
                target = try FileManager.default.destinationOfSymbolicLink(
                    atPath: path.hasSuffix("/") ? String(path.dropLast()) : path)
            } catch {
                return url
            }
            let directory = url.deletingLastPathComponent().resolvingSymlinksInPath()
            url = URL(filePath: target, relativeTo: directory).absoluteURL
        }
        throw FileSystemError(.resolve, .tooManySymbolicLinkLevels)
    }

    func read(from url: URL) throws -> Data { try Data(contentsOf: checked(url)) }

    func removeItem(at url: URL) throws {
        let url = try checked(url)
        guard try ![".", "..", ""].contains(POSIXPath(url).splitLast().name) else {
            throw FileSystemError(.removeDirectory, .invalidArgument)
        }
        try FileManager.default.removeItem(at: url)
    }

    func contentsOfDirectory(at url: URL) throws -> [URL] {
        // On Linux, Foundation lists a file, and a link to a directory, as an empty directory.
        let directory = try target(of: checked(url))
        guard try directory.resourceValues(forKeys: [.isDirectoryKey]).isDirectory ?? false else {
            throw CocoaError(.fileReadUnknown)
        }
        return try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil)
    }
}
