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

    private let root: ConfinedDirectory
    private var fileSystem: any POSIXFileSystem { root.fileSystem }
    private var known: [POSIXPath: Version]?

    /// The number of entries that one walk looks at; a larger tree is shown in part.
    private static let limit = 100_000

    private(set) var stores: [FoundStore] = []
    private(set) var isPartial = false

    init(_ root: ConfinedDirectory) {
        self.root = root
    }

    /// The state of a walk.
    private struct Walk {
        var stores: [FoundStore] = []
        var caches: [POSIXPath: FoundStore] = [:]
        var versions: [POSIXPath: Version] = [:]
        /// The directories to read, and what stores have written in those above them.
        var pending: [(directory: POSIXPath, parent: StoreEvidence?)] = [(".", nil)]
        var count = 0
        var isPartial = false
    }

    /// Walks the tree; returns the changes of vaults, cache entries and plain files since the last walk.
    ///
    /// - Throws: The error of the root directory. Directories that cannot be read are left out.
    mutating func run() throws(FileSystemError) -> [Timeline.Event] {
        var walk = Walk()
        while let (directory, parent) = walk.pending.popLast(), !walk.isPartial {
            do throws(FileSystemError) {
                try root.withDirectory(directory) { (descriptor) throws(FileSystemError) in
                    let owner =
                        try parent == nil
                        ? StoreEvidence(at: root.path, on: fileSystem)
                        : StoreEvidence(of: descriptor, below: parent, on: fileSystem)
                    visit(directory, of: owner, try fileSystem.entries(of: descriptor), at: descriptor, &walk)
                }
            } catch {
                guard directory != "." else { throw error }
            }
        }
        isPartial = walk.isPartial
        stores = (walk.stores + walk.caches.values).sorted {
            ($0.name, $0.kind.rawValue) < ($1.name, $1.kind.rawValue)
        }
        defer { known = walk.versions }
        return known.map { Self.changes(from: $0, to: walk.versions) } ?? []
    }

    private func visit(
        _ directory: POSIXPath, of owner: StoreEvidence, _ entries: [DirectoryEntry], at descriptor: Descriptor,
        _ walk: inout Walk
    ) {
        if owner.kinds.contains(.keyValue),
            entries.contains(where: { $0.name == FileKVStore.logName && $0.type == .regular })
        {
            walk.stores.append(FoundStore(kind: .keyValue, path: directory))
        }
        for entry in entries {
            walk.count += 1
            guard walk.count <= Self.limit else {
                walk.isPartial = true
                return
            }
            let path = directory == "." ? entry.name : directory.appending(entry.name)
            if entry.type == .directory {
                if !owner.isTemporary(entry.name) { walk.pending.append((path, owner)) }
                continue
            }
            guard let version = version(of: entry.name, at: descriptor, known?[path]) else { continue }
            walk.versions[path] = version
            switch version.content {
            case .vault where owner.mayHoldVaults: walk.stores.append(FoundStore(kind: .vault, path: path))
            case .cacheEntry where owner.kinds.contains(.cache):
                walk.caches[directory] = FoundStore(kind: .cache, path: directory)
            case .image where owner.kinds.contains(.images):
                walk.caches[directory] = FoundStore(kind: .images, path: directory)
            default: break
            }
        }
    }

    /// The version of a regular file; its content is recognised anew only if it has changed.
    private func version(of name: POSIXPath, at directory: Descriptor, _ known: Version?) -> Version? {
        do throws(FileSystemError) {
            let status = try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
            guard status.type == .regular else { return nil }
            var version = Version(
                inode: status.inode, size: status.sizeInBytes, modified: status.modified, content: .own)
            if let known {
                version.content = known.content
                if known == version { return known }
            }
            let (file, _) = try fileSystem.openRegularFile(name, at: directory)
            defer { fileSystem.discard(file) }
            version.content = try FileContent(name, of: file, on: fileSystem)
            return version
        } catch {
            return nil  // Removed since it was listed, or not readable.
        }
    }

    private static func changes(from old: [POSIXPath: Version], to new: [POSIXPath: Version]) -> [Timeline.Event] {
        var events: [Timeline.Event] = []
        let time = Date().timeIntervalSince1970
        func add(_ operation: String, _ name: POSIXPath, _ content: FileContent) {
            // Changes of logs are reported key by key.
            guard content != .log, content != .own else { return }
            events.append(Timeline.Event(time: time, store: "files", operation: operation, name: name.description))
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
