import ForgeFileSystem
import SystemPackage

/// The content of a tree, reduced to what two file systems must agree on, sorted by path.
struct FuzzTree: Equatable, Sendable {
    struct Node: Equatable, Sendable {
        var path: POSIXPath
        var status: FuzzOutcome
        /// The hash of a file's content, or the target of a link.
        var content: FuzzOutcome
        /// The index of the first node with the same inode.
        var original: Int
    }

    private(set) var nodes: [Node] = []

    /// Reads everything below an open directory.
    init(
        of home: Descriptor, in fileSystem: some POSIXFileSystem, limits: FuzzLimits,
        buffer: UnsafeMutableRawBufferPointer
    ) throws {
        var inodes: [UInt64: Int] = [:]
        var pending: [POSIXPath] = ["."]
        while let directory = pending.popLast() {
            let entries: [DirectoryEntry]
            do {
                entries = try fileSystem.withDirectory(directory, at: home) { (open) throws(FileSystemError) in
                    try fileSystem.entries(of: open)
                }
            } catch {
                nodes.append(Node(path: directory, status: .failed(error.errno), content: .skipped, original: 0))
                continue
            }
            for entry in entries.sorted(by: { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) }) {
                let path = directory.appending(entry.name)
                let status: FileStatus
                do {
                    status = try fileSystem.status(path, at: home, followsSymbolicLinks: false)
                } catch {
                    nodes.append(Node(path: path, status: .failed(error.errno), content: .skipped, original: 0))
                    continue
                }
                let original = inodes[status.inode] ?? nodes.count
                inodes[status.inode] = original
                nodes.append(
                    Node(
                        path: path, status: .status(FuzzStatus(status, comparesAccess: limits.comparesAccess)),
                        content: Self.content(of: path, status.type, at: home, in: fileSystem, buffer),
                        original: original))
                if status.type == .directory { pending.append(path) }
            }
        }
    }

    /// The first difference, as text.
    func difference(from other: FuzzTree) -> (String, String) {
        func text(_ node: Node?) -> String {
            node.map { "\($0.path) \($0.status) content \($0.content) first name of it #\($0.original)" } ?? "nothing"
        }
        let first = nodes.indices.first { $0 >= other.nodes.count || nodes[$0] != other.nodes[$0] } ?? nodes.count
        return (
            text(first < nodes.count ? nodes[first] : nil), text(first < other.nodes.count ? other.nodes[first] : nil)
        )
    }

    /// The bytes near the start and near the end: the middle is nearly always a hole.
    private static func content(
        of path: POSIXPath, _ type: FileType, at home: Descriptor, in fileSystem: some POSIXFileSystem,
        _ buffer: UnsafeMutableRawBufferPointer
    ) -> FuzzOutcome {
        do throws(FileSystemError) {
            switch type {
            case .symbolicLink: return .path(try fileSystem.readSymbolicLink(path, at: home))
            case .regular: break
            default: return .skipped
            }
            let descriptor = try fileSystem.open(path, at: home, .readOnly, options: [.noFollow])
            return try fileSystem.closing(descriptor) { () throws(FileSystemError) in
                var count = try fileSystem.readFully(descriptor, into: buffer, at: 0)
                var hash = fuzzHash(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
                if count == buffer.count {
                    let size = try fileSystem.status(of: .descriptor(descriptor)).sizeInBytes
                    let tail = UnsafeMutableRawBufferPointer(rebasing: buffer[..<8192])
                    count = try fileSystem.readFully(descriptor, into: tail, at: max(0, size - 8192))
                    hash ^= fuzzHash(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(tail)[..<count]))
                }
                return .content(count: count, hash: hash)
            }
        } catch {
            return .failed(error.errno)
        }
    }
}
