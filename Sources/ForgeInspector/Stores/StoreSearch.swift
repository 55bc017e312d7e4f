import ForgeStorage
import Foundation
import SystemPackage

/// Walks a directory: finds its stores, and what has changed in its other files since the last walk.
struct StoreSearch: Sendable {
    private struct Version: Equatable {
        var inode: UInt64
        var size: Int64
        var modified: FileTime
        var content: FileContent
    }

    private let root: POSIXPath
    private let fileSystem = SystemFileSystem()
    private var known: [String: Version]?

    /// The number of entries that one walk looks at; a larger tree is shown in part.
    private static let limit = 100_000

    private(set) var stores: [FoundStore] = []
    private(set) var isPartial = false

    init(_ root: POSIXPath) {
        self.root = root
    }

    /// Walks the tree; returns the changes of vaults, cache entries and plain files since the last walk.
    ///
    /// - Throws: The error of the root directory. Directories that cannot be read are left out.
    mutating func run() throws(FileSystemError) -> [Timeline.Event] {
        var found: [FoundStore] = []
        var versions: [String: Version] = [:]
        var caches: [String: FoundStore] = [:]
        var pending: [(path: POSIXPath, name: String)] = [(root, "")]
        var count = 0
        isPartial = false
        while let directory = pending.popLast() {
            let entries: [DirectoryEntry]
            do throws(FileSystemError) {
                entries = try fileSystem.withDirectory(directory.path) { (descriptor) throws(FileSystemError) in
                    try fileSystem.entries(of: descriptor)
                }
            } catch {
                guard !directory.name.isEmpty else { throw error }
                continue
            }
            for entry in entries {
                count += 1
                guard count <= Self.limit else {
                    isPartial = true
                    break
                }
                let path = directory.path.appending(entry.name)
                let name = directory.name.isEmpty ? String(entry.name) : "\(directory.name)/\(String(entry.name))"
                if entry.type == .directory {
                    if !entry.name.isLeftover { pending.append((path, name)) }
                    continue
                }
                guard let version = version(of: path, entry, known?[name]) else { continue }
                versions[name] = version
                let place = directory.name.isEmpty ? "." : directory.name
                switch version.content {
                case .log: found.append(FoundStore(kind: .keyValue, name: place, path: directory.path))
                case .vault: found.append(FoundStore(kind: .vault, name: name, path: path))
                case .cacheEntry: caches[place] = FoundStore(kind: .cache, name: place, path: directory.path)
                case .image: caches[place] = FoundStore(kind: .images, name: place, path: directory.path)
                default: break
                }
            }
        }
        stores = (found + caches.values).sorted { ($0.name, $0.kind.rawValue) < ($1.name, $1.kind.rawValue) }
        defer { known = versions }
        return known.map { Self.changes(from: $0, to: versions) } ?? []
    }

    /// The version of a regular file; its content is recognised anew only if it has changed.
    private func version(of path: POSIXPath, _ entry: DirectoryEntry, _ known: Version?) -> Version? {
        do throws(FileSystemError) {
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            guard status.type == .regular else { return nil }
            var version = Version(
                inode: status.inode, size: status.sizeInBytes, modified: status.modified, content: .own)
            if let known {
                version.content = known.content
                if known == version { return known }
            }
            let file = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
            defer { fileSystem.discard(file) }
            version.content = try FileContent(entry.name, of: file, on: fileSystem)
            return version
        } catch {
            return nil  // Removed since it was listed, or not readable.
        }
    }

    private static func changes(from old: [String: Version], to new: [String: Version]) -> [Timeline.Event] {
        var events: [Timeline.Event] = []
        let time = Date().timeIntervalSince1970
        func add(_ operation: String, _ name: String, _ content: FileContent) {
            // Changes of logs are reported key by key.
            guard content != .log, content != .own else { return }
            events.append(Timeline.Event(time: time, store: "files", operation: operation, name: name))
        }
        for (name, version) in new {
            guard let earlier = old[name] else {
                add("create", name, version.content)
                continue
            }
            if earlier != version { add("write", name, version.content) }
        }
        for (name, version) in old where new[name] == nil { add("delete", name, version.content) }
        events.sort { ($0.name ?? "") < ($1.name ?? "") }
        guard events.count > Timeline.burst else { return events }
        events[Timeline.burst - 1].omittedCount = events.count - Timeline.burst
        return Array(events[..<Timeline.burst])
    }
}
