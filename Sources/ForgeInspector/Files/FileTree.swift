import ForgeStorage
import Foundation
import SystemPackage

/// The files below the inspected directory: one directory at a time, and the beginning of one file.
///
/// No link is followed, no path leaves the directory, and only regular files are opened.
struct FileTree: Sendable {
    struct Row: Encodable, Sendable {
        /// The component of a path in a request, percent-encoded.
        var id: String
        /// The name as a readable text, which differs from that of every other name.
        var name: String
        var isDirectory: Bool
        var size: Int64
        /// In seconds since 1970.
        var modified: Double
        /// Nil for a directory.
        var content: FileContent?
    }

    struct Page: Encodable, Sendable {
        var total: Int
        var offset: Int
        var rows: [Row]
    }

    struct Preview: Encodable, Sendable {
        var size: Int64
        var offset: Int64
        var content: FileContent
        /// The text of these bytes if they are UTF-8; nil for other bytes and for contents that are not shown.
        var text: String?
        /// The bytes in base64 if they are no text.
        var base64: String?
        /// The media type of an image.
        var image: String?
    }

    private let root: ConfinedDirectory
    private var fileSystem: any POSIXFileSystem { root.fileSystem }

    /// The number of bytes of a preview.
    static let limit = 64 << 10

    init(_ root: ConfinedDirectory) {
        self.root = root
    }

    /// A directory's entries, directories first, by the bytes of their names.
    func list(_ directory: String, offset: Int, limit: Int) throws(FileSystemError) -> Page {
        let descriptor = try root.open(Self.path(directory))
        defer { fileSystem.discard(descriptor) }
        var entries = try fileSystem.entries(of: descriptor)
        entries.sort { left, right in
            let (isLeft, isRight) = (left.type == .directory, right.type == .directory)
            return isLeft == isRight ? left.name.bytes.lexicographicallyPrecedes(right.name.bytes) : isLeft
        }
        let scope = try StoreScope(of: descriptor, on: fileSystem)
        var rows: [Row] = []
        for entry in entries.dropFirst(offset).prefix(limit) {
            rows.append(try row(entry, at: descriptor, in: scope))
        }
        return Page(total: entries.count, offset: offset, rows: rows)
    }

    private func row(
        _ entry: DirectoryEntry, at directory: Descriptor, in scope: StoreScope
    ) throws(FileSystemError) -> Row {
        let (id, name) = (entry.name.percentEncoded, entry.name.description)
        do throws(FileSystemError) {
            let status = try fileSystem.status(entry.name, at: directory, followsSymbolicLinks: false)
            var row = Row(
                id: id, name: name, isDirectory: status.type == .directory,
                size: status.type == .regular ? status.sizeInBytes : 0,
                modified: status.modified.secondsSince1970)
            guard !row.isDirectory else { return row }
            row.content = .special
            guard status.type == .regular else { return row }
            let (file, _) = try fileSystem.openRegularFile(entry.name, at: directory)
            row.content = try fileSystem.closing(file) { () throws(FileSystemError) in
                try FileContent(entry.name, of: file, in: scope, on: fileSystem)
            }
            return row
        } catch {
            // Removed or replaced since it was listed, or not readable: not a reason to show no other.
            return Row(id: id, name: name, isDirectory: false, size: 0, modified: 0, content: .special)
        }
    }

    /// Up to ``limit`` bytes of a file from an offset on.
    func preview(_ file: String, offset: Int64) throws(FileSystemError) -> Preview {
        let path = try Self.path(file)
        guard offset >= 0 else { throw FileSystemError(.read, .invalidArgument, path: path) }
        let (directory, name) = try root.openParent(of: path)
        defer { fileSystem.discard(directory) }
        let (descriptor, status) = try fileSystem.openRegularFile(name, at: directory)
        return try fileSystem.closing(descriptor) { () throws(FileSystemError) in
            let scope = try StoreScope(of: directory, on: fileSystem)
            let content = try FileContent(name, of: descriptor, in: scope, on: fileSystem)
            var preview = Preview(size: status.sizeInBytes, offset: offset, content: content)
            guard content.isShown else { return preview }
            let bytes = try fileSystem.readBytes(of: descriptor, at: offset, count: Self.limit)
            preview.text = Self.text(bytes)
            if preview.text == nil { preview.base64 = Data(bytes).base64EncodedString() }
            if offset == 0, Int64(bytes.count) == status.sizeInBytes { preview.image = Self.image(bytes) }
            return preview
        }
    }

    /// The path of a percent-encoded text from a request; `.` for the directory itself.
    private static func path(_ text: String) throws(FileSystemError) -> POSIXPath {
        guard !text.isEmpty else { return "." }
        let bytes = POSIXPath.decodingPercentEscapes(text, refusing: "/") ?? []
        let components = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard !bytes.isEmpty,
            components.allSatisfy({ !$0.isEmpty && !$0.elementsEqual(".".utf8) && !$0.elementsEqual("..".utf8) })
        else { throw FileSystemError(.resolve, .invalidArgument, path: POSIXPath(text)) }
        return POSIXPath(bytes)
    }

    /// The text of bytes without a partial character at the end; nil if they are not UTF-8, or contain a NUL.
    private static func text(_ bytes: [UInt8]) -> String? {
        guard !bytes.contains(0) else { return nil }
        for omitted in 0...min(3, bytes.count) {
            if let text = String(validating: bytes.dropLast(omitted), as: UTF8.self) { return text }
        }
        return nil
    }

    private static func image(_ bytes: [UInt8]) -> String? {
        if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47]) { return "image/png" }
        if bytes.starts(with: [0xFF, 0xD8, 0xFF]) { return "image/jpeg" }
        if bytes.starts(with: "GIF8".utf8) { return "image/gif" }
        return bytes.starts(with: "RIFF".utf8) && bytes.dropFirst(8).starts(with: "WEBP".utf8) ? "image/webp" : nil
    }
}
