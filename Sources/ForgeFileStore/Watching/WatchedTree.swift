import ForgeFileSystem
import SystemPackage

/// The watched directories of a store: those of the scope, and those above it, up to the root of the file system.
///
/// A directory is watched before its entries are listed, so that no change falls between. The path to the root is
/// watched from the top: whatever is replaced on it, its directory has an event, and all watches are set up again. An
/// event only says where to look: what is reported is what is there now.
///
/// Used on the queue of its ``FileWatch``.
final class WatchedTree {
    let watch: any DirectoryWatching
    private let root: LazyStoreDirectory
    private let scope: RelativeKey?
    private let isCancelled: () -> Bool
    private let report: (FileChange) -> Void

    private var store: StoreDirectory?
    /// The watched directories of the store, by their numbers.
    private var directories: [Int: WatchedDirectory] = [:]
    /// The watched directories above the root, by their numbers, with the names that lead to the root.
    private var ancestors: [Int: Set<POSIXPath>] = [:]

    /// - Parameters:
    ///   - root: The root of the store.
    ///   - watch: An empty watch, whose events are passed to ``handle(_:)``.
    ///   - scope: The directory or file whose changes are reported; nil for all.
    ///   - isCancelled: Whether a long listing is to be given up.
    ///   - report: Called with every change.
    init(
        _ root: LazyStoreDirectory, _ watch: any DirectoryWatching, _ scope: RelativeKey?,
        isCancelled: @escaping () -> Bool, report: @escaping (FileChange) -> Void
    ) {
        self.root = root
        self.watch = watch
        self.scope = scope
        self.isCancelled = isCancelled
        self.report = report
    }

    /// Watches all directories anew, and reports `resync`.
    func restart() throws(FileStoreError) {
        if try !watchAll(.existence) { _ = try watchAll(.entries) }
        report(.resync)
    }

    /// Watches all directories anew; returns whether that is enough. A change before a directory is watched has no event
    /// of its own, so the path is resolved again at the end.
    private func watchAll(_ kind: AncestorWatch) throws(FileStoreError) -> Bool {
        for number in directories.keys { watch.unwatch(number) }
        for number in ancestors.keys { watch.unwatch(number) }
        directories = [:]
        ancestors = [:]
        do throws(FileSystemError) { try watchAncestors(kind) } catch { throw failure(error) }
        store = try existingStore()
        if let store {
            do throws(FileSystemError) {
                try enter(nil, of: nil, in: store, reporting: false)
            } catch {
                throw failure(error)
            }
        }
        guard kind == .existence else { return true }
        let current = try existingStore()
        return current != nil && current === store
    }

    func handle(_ events: [DirectoryEvent]) throws(FileStoreError) {
        var later: Set<DirectoryEvent> = []
        var isLast = events.reversed().map { later.insert($0).inserted }
        for event in events {
            // The last event of a name finds all changes before it.
            guard isLast.popLast() == true else { continue }
            guard !isCancelled() else { return }
            switch event {
            case .lost:
                // The later events are those of directories that are watched anew.
                return try restart()
            case .added(let name, let number), .removed(let name, let number), .written(let name, let number):
                if let names = ancestors[number] {
                    if names.contains(name) { return try restart() }
                } else if let directory = directories[number], let store {
                    if case .removed = event { forget(name, in: directory) }
                    do throws(FileSystemError) {
                        try look(at: name, in: directory, of: store)
                    } catch {
                        throw failure(error)
                    }
                }
            }
        }
    }

    private func existingStore() throws(FileStoreError) -> StoreDirectory? {
        do throws(FileSystemError) {
            return try root.existing()
        } catch {
            throw FileStoreError(opening: error, .watch, key: key)
        }
    }

    private var key: String { scope?.string ?? "" }

    private func failure(_ error: FileSystemError) -> FileStoreError { FileStoreError(error, .watch, key: key) }

    // MARK: Above the root

    /// The directories in which the path of the root is looked up, from the top, each with the name that is looked up
    /// there. The targets of links on the way are looked up as well.
    private func stepsToRoot() -> [(directory: POSIXPath, name: POSIXPath)] {
        var steps: [(directory: POSIXPath, name: POSIXPath)] = []
        var directory: POSIXPath = root.path.isAbsolute ? "/" : "."
        /// The names that are still to be looked up, the next one at the end.
        var names = root.path.names.reversed() as [POSIXPath]
        var linkCount = 0
        while let name = names.popLast() {
            let path = directory.appending(name)
            guard name != ".." else {
                // Not the parent of a link: `directory` is the target of all of them.
                directory = path
                continue
            }
            steps.append((directory, name))
            guard linkCount < Self.maximumLinkCount, let target = linkTarget(at: path) else {
                directory = path
                continue
            }
            linkCount += 1
            names += target.names.reversed()
            if target.isAbsolute { directory = "/" }
        }
        return steps
    }

    /// As many links as the kernel follows (path_resolution(7)).
    private static let maximumLinkCount = 40

    private func linkTarget(at path: POSIXPath) -> POSIXPath? {
        do throws(FileSystemError) {
            return try root.fileSystem.readSymbolicLink(path)
        } catch {
            return nil  // Not a link, missing or not readable: nothing below can be resolved otherwise.
        }
    }

    /// How a directory above the root is watched.
    private enum AncestorWatch {
        /// Its end alone where the directory below it is watched too, whose replacement ends it. Entries where a link is
        /// looked up, or nothing is found.
        case existence
        case entries
    }

    /// Watches the existing directories above the root.
    private func watchAncestors(_ kind: AncestorWatch) throws(FileSystemError) {
        for (directory, name) in stepsToRoot() {
            do throws(FileSystemError) {
                let isFound = kind == .existence && isDirectory(directory.appending(name))
                let descriptor = try root.fileSystem.openDirectory(directory)
                defer { root.fileSystem.discard(descriptor) }
                let number =
                    isFound
                    ? try watch.watchExistence(of: descriptor) : try watch.watch(descriptor, includesWrites: false)
                ancestors[number, default: []].insert(name)
            } catch {
                // A missing directory appears in the one above. One that cannot be read cannot be watched.
                guard error.errno.isDisappearance || error.errno.isRefusal else { throw error }
            }
        }
    }

    /// Whether a directory that can be watched is at a path, and not a link.
    private func isDirectory(_ path: POSIXPath) -> Bool {
        let fileSystem = root.fileSystem
        do throws(FileSystemError) {
            guard try fileSystem.status(path, followsSymbolicLinks: false).type == .directory else { return false }
            fileSystem.discard(try fileSystem.openDirectory(path))
            return true
        } catch {
            return false
        }
    }

    // MARK: In the store

    /// Watches a directory and the directories below it; nil is the root.
    private func enter(
        _ name: POSIXPath?, of parent: WatchedDirectory?, in store: StoreDirectory, reporting: Bool
    ) throws(FileSystemError) {
        let key = name.flatMap { parent?.key(of: $0) }
        do throws(FileSystemError) {
            try store.withDirectory(key) { (descriptor) throws(FileSystemError) in
                let number = try watch.watch(descriptor, includesWrites: true)
                let isKnown = name.flatMap { parent?.children[$0] }?.isForeign == false
                let directory = insert(number, key, name, in: parent)
                let entries = try store.fileSystem.entries(of: descriptor)
                if let name, let parent, entries.contains(where: \.name.isStoreMarker) {
                    return forget(name, in: parent, reporting: reporting && isKnown)
                }
                for entry in entries where !isCancelled() {
                    guard let key = directory.key(of: entry.name) else { continue }
                    switch (entry.type, relation(of: key)) {
                    case (_, .outside): continue
                    case (.directory, _): try enter(entry.name, of: directory, in: store, reporting: reporting)
                    case (.regular, .inside): if reporting { report(.changed(key.string)) }
                    default: continue
                    }
                }
            }
        } catch {
            if error.errno.isRefusal, let key {
                guard try store.status(of: key).owner == store.fileSystem.effectiveUser else { return }
            }
            guard error.errno.isDisappearance else { throw error }
        }
    }

    private func insert(
        _ number: Int, _ key: RelativeKey?, _ name: POSIXPath?, in parent: WatchedDirectory?
    ) -> WatchedDirectory {
        if let name, let known = parent?.children[name] {
            if known.number == number, directories[number] === known { return known }
            release(known)
        }
        // If the directory was watched under another key, the event of its rename is still to come.
        let directory = WatchedDirectory(number, key)
        directories[number] = directory
        if let name { parent?.children[name] = directory }
        return directory
    }

    /// Reports what is at a name.
    private func look(
        at name: POSIXPath, in directory: WatchedDirectory, of store: StoreDirectory
    ) throws(FileSystemError) {
        if let own = directory.key, name.isStoreMarker {
            directory.isForeign = true
            release(directory)
            return reportRemoval(of: own)
        }
        guard let key = directory.key(of: name), relation(of: key) != .outside else { return }
        var type: FileType?
        do throws(FileSystemError) {
            type = try store.withDirectory(directory.key) { (descriptor) throws(FileSystemError) in
                try store.fileSystem.status(name, at: descriptor, followsSymbolicLinks: false).type
            }
        } catch {
            guard error.errno.isDisappearance else { throw error }
        }
        switch type {
        case .directory: try enter(name, of: directory, in: store, reporting: true)
        case .regular: if relation(of: key) == .inside { report(.changed(key.string)) }
        default: if relation(of: key) == .inside { report(.removed(key.string)) }
        }
    }

    /// Stops watching the directory at a name, if one is watched there; reports its removal if `reporting` is set.
    private func forget(_ name: POSIXPath, in directory: WatchedDirectory, reporting: Bool = true) {
        guard let child = directory.children.removeValue(forKey: name) else { return }
        release(child)
        if reporting, let key = child.key { reportRemoval(of: key) }
    }

    /// Stops watching a directory and those below it, except those that are watched under other keys meanwhile.
    private func release(_ directory: WatchedDirectory) {
        for child in directory.children.values { release(child) }
        guard directories[directory.number] === directory else { return }
        directories[directory.number] = nil
        watch.unwatch(directory.number)
    }

    // MARK: Scope

    private enum Relation {
        case inside, above, outside
    }

    private func relation(of key: RelativeKey) -> Relation {
        guard let scope, scope.path != key.path else { return .inside }
        let slash = UInt8(ascii: "/")
        if key.path.bytes.starts(with: scope.path.bytes + [slash]) { return .inside }
        return scope.path.bytes.starts(with: key.path.bytes + [slash]) ? .above : .outside
    }

    private func reportRemoval(of key: RelativeKey) {
        switch relation(of: key) {
        case .inside: report(.removed(key.string))
        case .above: report(.removed(self.key))
        case .outside: break
        }
    }
}

/// A watched directory of a store.
final class WatchedDirectory {
    let number: Int
    /// Nil for the root.
    let key: RelativeKey?
    var children: [POSIXPath: WatchedDirectory] = [:]
    /// Whether it became the root of another store, which was reported as its removal.
    var isForeign = false

    init(_ number: Int, _ key: RelativeKey?) {
        self.number = number
        self.key = key
    }

    /// The key of an entry; nil if its name is not valid in a key.
    func key(of name: POSIXPath) -> RelativeKey? {
        RelativeKey(listed: key?.path.appending(name) ?? name)
    }
}

extension POSIXPath {
    fileprivate var isAbsolute: Bool { bytes.first == UInt8(ascii: "/") }

    /// The components that are looked up.
    fileprivate var names: [POSIXPath] {
        bytes.split(separator: UInt8(ascii: "/")).map { POSIXPath($0) }.filter { $0 != "." }
    }
}
