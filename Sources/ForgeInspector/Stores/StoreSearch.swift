import ForgeStorage
import Foundation
import SystemPackage

/// Walks a directory: finds its stores, and what has changed in its other files since the last walk.
struct StoreSearch: Sendable {
    /// A state of a file, and its role then.
    private struct Version {
        let status: FileStatus
        let scope: StoreScope
        let role: FileRole

        /// Compares the status-change time (ctime), which no program can set, unlike the modification time, which
        /// `rsync -a` and `tar` restore. Changed attributes, such as permissions, count as a write too.
        func isSame(as other: FileStatus) -> Bool {
            status.inode == other.inode && status.sizeInBytes == other.sizeInBytes && status.changed == other.changed
        }
    }

    private let root: ConfinedDirectory
    private var known: [POSIXPath: Version]?

    /// The number of entries that one walk looks at; a larger tree is shown in part.
    private static let limit = 100_000

    private(set) var stores: [FoundStore] = []
    private(set) var isPartial = false

    init(_ root: ConfinedDirectory) {
        self.root = root
    }

    /// Walks the tree; returns the changes of vaults, cache entries and plain files since the last walk.
    ///
    /// - Throws: The error of the root directory. Directories that cannot be read are left out.
    mutating func run() throws(FileSystemError) -> [Timeline.Event] {
        var walk = StoreWalk(root)
        var found: [FoundStore] = []
        var versions: [POSIXPath: Version] = [:]
        var count = 0
        isPartial = false
        while let event = try walk.next() {
            count += 1
            isPartial = count > Self.limit
            guard !isPartial else { break }
            guard case .file(let file) = event else {
                if case .entered(let directory) = event { found += Self.caches(in: directory) }
                continue
            }
            guard let version = version(of: file, in: walk) else { continue }
            versions[file.path] = version
            switch version.role {
            case .log where file.scope.owner.contains(.keyValue):
                found.append(FoundStore(kind: .keyValue, path: Self.directory(file.path.splitLast().parent)))
            case .vault: found.append(FoundStore(kind: .vault, path: file.path))
            default: break
            }
        }
        stores = found.sorted { ($0.name, $0.kind.rawValue) < ($1.name, $1.kind.rawValue) }
        defer { known = versions }
        return known.map { Self.changes(from: $0, to: versions) } ?? []
    }

    /// The caches of a directory.
    private static func caches(in directory: StoreWalk.Entry) -> [FoundStore] {
        let kinds: [(StoreKind, FoundStore.Kind)] = [(.cache, .cache), (.images, .images)]
        return kinds.filter { directory.scope.owner.contains($0.0) }.map {
            FoundStore(kind: $0.1, path: Self.directory(directory.path))
        }
    }

    private static func directory(_ path: POSIXPath) -> POSIXPath { path.isEmpty ? "." : path }

    /// The version of a regular file, whose content is read only if it has changed; nil if it cannot be read.
    private func version(of file: StoreWalk.Entry, in walk: StoreWalk) -> Version? {
        guard file.status.type == .regular else { return nil }
        if let known = known?[file.path], known.isSame(as: file.status), known.scope == file.scope { return known }
        do throws(FileSystemError) {
            return Version(status: file.status, scope: file.scope, role: try walk.role(of: file))
        } catch {
            return nil
        }
    }

    private static func changes(from old: [POSIXPath: Version], to new: [POSIXPath: Version]) -> [Timeline.Event] {
        var events: [Timeline.Event] = []
        let time = Date().timeIntervalSince1970
        func add(_ operation: String, _ name: POSIXPath, _ role: FileRole) {
            // Changes of logs are reported key by key.
            guard ![.log, .marker, .bookkeeping, .temporary].contains(role) else { return }
            events.append(Timeline.Event(time: time, store: "files", operation: operation, name: name.description))
        }
        for (name, version) in new {
            guard let earlier = old[name] else {
                add("create", name, version.role)
                continue
            }
            if !earlier.isSame(as: version.status) { add("write", name, version.role) }
        }
        for (name, version) in old where new[name] == nil { add("delete", name, version.role) }
        events.sort { ($0.name ?? "") < ($1.name ?? "") }
        guard events.count > Timeline.burst else { return events }
        events[Timeline.burst - 1].omittedCount = events.count - Timeline.burst
        return Array(events[..<Timeline.burst])
    }
}
