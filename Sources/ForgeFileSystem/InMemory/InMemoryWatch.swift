public import Dispatch
import Synchronization
import SystemPackage

extension InMemoryFileSystem {
    public func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        let watch = InMemoryWatch(self, queue, onEvents, onCancel)
        try perform(.watch) { (state) throws(Errno) in state.watches.append(watch) }
        return watch
    }
}

/// A watch of directories of an ``InMemoryFileSystem``.
final class InMemoryWatch: DirectoryWatching {
    fileprivate struct State {
        /// The watched directories, by the numbers of their inodes.
        var directories: [UInt64: Directory] = [:]
        var lastNumber = 0
        var events: [DirectoryEvent] = []
        var isCancelled = false
    }

    fileprivate struct Directory {
        var number: Int
        var includesWrites: Bool
    }

    /// The process that watches.
    let process: Int
    private let tree: InMemoryFileSystem.Tree
    private let queue: DispatchQueue
    private let onEvents: @Sendable ([DirectoryEvent]) -> Void
    private let onCancel: @Sendable () -> Void
    /// Acquired after the lock of the tree.
    private let state = Mutex(State())

    fileprivate init(
        _ fileSystem: InMemoryFileSystem, _ queue: DispatchQueue,
        _ onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void, _ onCancel: @escaping @Sendable () -> Void
    ) {
        process = fileSystem.process
        tree = fileSystem.tree
        self.queue = queue
        self.onEvents = onEvents
        self.onCancel = onCancel
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        do throws(Errno) {
            return try tree.state.withLock { (tree) throws(Errno) in
                tree.begin(process)
                let index = tree.openFiles[try tree.openFile(directory)].inode
                guard tree.isDirectory(index) else { throw .notDirectory }
                try tree.require(.read, to: index)
                let count = tree.watches.reduce(0) { $0 + $1.directoryCount }
                let number = tree.inodes[index].number
                return try state.withLock { (state) throws(Errno) in
                    if let known = state.directories[number] {
                        state.directories[number]?.includesWrites = includesWrites
                        return known.number
                    }
                    guard count < tree.options.maximumWatchCount else { throw .noSpace }
                    state.lastNumber += 1
                    state.directories[number] = Directory(number: state.lastNumber, includesWrites: includesWrites)
                    return state.lastNumber
                }
            }
        } catch {
            throw FileSystemError(.watch, error)
        }
    }

    func unwatch(_ number: Int) {
        state.withLock { state in
            if let inode = state.directories.first(where: { $0.value.number == number })?.key {
                state.directories[inode] = nil
            }
        }
    }

    func cancel() {
        let isFirst = state.withLock { state in
            defer { state.isCancelled = true }
            return !state.isCancelled
        }
        guard isFirst else { return }
        tree.state.withLock { tree in tree.watches.removeAll { $0 === self } }
        queue.async { [onCancel] in onCancel() }
    }

    // MARK: Events

    /// A kind of ``DirectoryEvent``.
    enum Kind {
        case added, removed, written
    }

    var directoryCount: Int { state.withLock { $0.directories.count } }

    func isWatched(_ inode: UInt64) -> Bool { state.withLock { $0.directories[inode] != nil } }

    /// Ends the watch of a directory that was removed.
    func forget(_ inode: UInt64) { state.withLock { $0.directories[inode] = nil } }

    /// Adds an event of a directory, unless the queue is full.
    func add(_ kind: Kind, _ name: POSIXPath, in inode: UInt64, limit: Int) {
        let isFirst = state.withLock { state in
            guard let directory = state.directories[inode] else { return false }
            if kind == .written, !directory.includesWrites { return false }
            let event: DirectoryEvent =
                switch kind {
                case .added: .added(name, in: directory.number)
                case .removed: .removed(name, in: directory.number)
                case .written: .written(name, in: directory.number)
                }
            return state.append(event, limit)
        }
        if isFirst { deliver() }
    }

    /// Ends the watch of all directories, which no longer exist.
    func loseAll() {
        let isFirst = state.withLock { state in
            state.directories = [:]
            return state.append(.lost, .max)
        }
        if isFirst { deliver() }
    }

    private func deliver() {
        queue.async { [self] in
            let events = state.withLock { state in
                defer { state.events = [] }
                return state.isCancelled ? [] : state.events
            }
            if !events.isEmpty { onEvents(events) }
        }
    }
}

extension InMemoryWatch.State {
    /// Adds an event, or reports that it was lost; returns whether it is the first that is not delivered.
    fileprivate mutating func append(_ event: DirectoryEvent, _ limit: Int) -> Bool {
        if events.count < limit {
            events.append(event)
        } else if events.last != .lost {
            events.append(.lost)
        }
        return events.count == 1
    }
}

/// The events of watched directories, in the same cases as those of `inotify(7)`.
extension InMemoryFileSystem.State {
    /// Reports a change of a name to all watches.
    @inline(never) func notify(_ kind: InMemoryWatch.Kind, _ name: FileSystemEffect.Place) {
        for watch in watches {
            watch.add(kind, name.name, in: name.directory, limit: options.maximumQueuedEventCount)
        }
    }

    /// Ends the watches of a removed directory.
    @inline(never) func endWatches(of index: Int) {
        for watch in watches { watch.forget(inodes[index].number) }
    }

    /// Reports that a file which was open for writing was closed, under all its names in watched directories.
    ///
    /// Linux reports it only under the name by which the file was opened.
    ///
    /// The search begins with the latest names, as a file was probably created when it was written.
    ///
    /// - Complexity: O(*n*) in the entries of the watched directories, O(1) for a name that is one of the latest.
    @inline(never) func notifyWritten(_ index: Int) {
        var rest = inodes[index].nameCount
        for directory in names.indices.reversed() where isDirectory(directory) {
            let number = inodes[directory].number
            guard watches.contains(where: { $0.isWatched(number) }) else { continue }
            var position = names[directory].entries.count
            while position > 0, rest > 0 {
                position -= 1
                guard Int(names[directory].entries[position].inode) == index else { continue }
                notify(.written, place(at: position, in: directory))
                rest -= 1
            }
            if rest == 0 { return }
        }
    }
}
