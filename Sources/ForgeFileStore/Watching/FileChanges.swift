import Dispatch
import ForgeFileSystem
import Synchronization

/// The changes of the files in a directory of a store, by this process and by others; never ends by itself.
///
/// The first element is ``FileChange/resync``, as soon as the files are watched. Every change after the iterator was
/// made is reported under its key or covered by a later `resync`. So a loop that lists the files on `resync`, and
/// handles the other elements one by one, has the present state after each change.
///
/// - A save is reported when the file is at its key. A write of another program to an existing file is reported when
///   that program closes the file; writes through mappings, `truncate(2)` and changes of attributes are not reported.
/// - Several changes of a file may be reported as one, and one change as several. An element says what was found after
///   the change: load the file to see its content, and expect that it may have changed again.
/// - Names that are not keys are not reported, and neither are directories without files, the files of other stores
///   below the root, and symbolic links, which are not followed. A link that replaces a file is a removal of that file.
/// - At most 1,024 elements are kept for a slow consumer; more become one `resync`.
///
/// On Linux, every directory is watched with `inotify(7)`, which needs `/proc` and one watch per directory of the tree
/// and per directory above the root. Changes made by other machines on a network file system are not noticed. On
/// Apple's systems, every directory is watched with `kqueue(2)`, which needs one descriptor per directory: every change
/// of names is reported as `resync`, and a write of another program to an existing file is not noticed.
///
/// Every iterator watches for itself, from the first call of `next()` until it is released, the task that iterates is
/// cancelled, or an error was thrown. In a cancelled task `next()` returns nil, after all descriptors of the watch are
/// closed. All work is done outside of the threads of Swift concurrency.
public struct FileChanges: AsyncSequence, Sendable {
    /// Returns the next change; nil at the end.
    public typealias NextChange = () async throws -> FileChange?

    private let begin: @Sendable () -> NextChange

    /// Creates a sequence, for stores of other modules.
    ///
    /// - Parameter begin: Starts to watch; called by every iteration.
    public init(_ begin: @escaping @Sendable () -> NextChange) {
        self.begin = begin
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let nextChange: NextChange

        public mutating func next() async throws -> FileChange? {
            try await nextChange()
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(nextChange: begin())
    }
}

/// A change of the files in a store; see ``FileChanges``.
public enum FileChange: Hashable, Sendable {
    /// The file at the key was created, replaced or written.
    case changed(String)

    /// There is no file at the key any more, nor below it: a file was removed, or a directory with everything in it.
    case removed(String)

    /// Any files may have changed: list them again, or load those of interest.
    ///
    /// It is the first element, and follows when changes were lost, when the root was removed, replaced or created, and
    /// when the consumer is slow.
    case resync

    /// Keys are compared by their bytes.
    public static func == (first: FileChange, second: FileChange) -> Bool {
        switch (first, second) {
        case (.changed(let key), .changed(let other)), (.removed(let key), .removed(let other)):
            key.hasSameBytes(as: other)
        case (.resync, .resync): true
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .changed(let key), .removed(let key): hasher.combine(POSIXPath(key))
        case .resync: break
        }
    }
}

/// The changes that a consumer has not taken yet, in their order.
struct FileChangeBuffer {
    static let limit = 1024

    private var changes: [FileChange] = []
    /// The position of the next change to take.
    private var next = 0
    /// The keys of kept `changed` elements after the last kept `removed`.
    private var changed: Set<POSIXPath> = []

    /// Adds a change, unless a kept one covers it; a full buffer becomes one `resync`.
    mutating func append(_ change: FileChange) {
        // The files will be listed after this change.
        if changes.last == .resync { return }
        switch change {
        case .changed(let key):
            guard changed.insert(POSIXPath(key)).inserted else { return }
        case .removed:
            guard changes.last != change else { return }
            changed = []
        case .resync:
            return removeAll(keeping: [.resync])
        }
        guard changes.count - next < Self.limit else { return removeAll(keeping: [.resync]) }
        changes.append(change)
    }

    mutating func popFirst() -> FileChange? {
        guard next < changes.count else { return nil }
        let change = changes[next]
        next += 1
        if case .changed(let key) = change { changed.remove(POSIXPath(key)) }
        if next == changes.count {
            removeAll()
        } else if next == Self.limit {
            changes.removeFirst(next)
            next = 0
        }
        return change
    }

    mutating func removeAll(keeping changes: [FileChange] = []) {
        self.changes = changes
        next = 0
        changed = []
    }
}

/// The changes of files.
extension PlainFileStore {
    public func changes(in directory: String) -> FileChanges {
        FileChanges { [self] in
            let owner = FileWatch.Owner(FileWatch(self, directory))
            return { try await owner.watch.next() }
        }
    }
}

/// One iteration over the changes of files: a watched tree, and the changes that the consumer has not taken yet.
///
/// `@unchecked Sendable`: `tree` is accessed on `queue` only; the rest is constant or behind a lock.
final class FileWatch: @unchecked Sendable {
    /// Ends the watch when the iterator is released.
    final class Owner: Sendable {
        let watch: FileWatch

        init(_ watch: FileWatch) { self.watch = watch }

        deinit { watch.cancel() }
    }

    private let store: PlainFileStore
    private let directory: String
    /// All work on the tree is done here.
    private let queue = DispatchQueue(label: "ForgeStorage.FileWatch")
    private let state = Mutex(State())
    /// Nil before the start and after the end.
    private var tree: WatchedTree?

    init(_ store: PlainFileStore, _ directory: String) {
        self.store = store
        self.directory = directory
    }

    /// The next change; waits for one. The first call starts the watch.
    func next() async throws -> FileChange? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let (answer, starts) = state.withLock { $0.takeChange(orWait: continuation) }
                if let answer { continuation.resume(with: answer) }
                if starts { queue.async { self.start() } }
            }
        } onCancel: {
            cancel()
        }
    }

    /// Ends the watch. The descriptors are closed soon afterwards, and then a waiting `next` returns nil.
    func cancel() {
        guard state.withLock({ $0.cancel() }) else { return }
        queue.async { self.stop(nil) }
    }

    // MARK: On the queue

    private func start() {
        guard !isStopped else { return }
        do throws(FileStoreError) {
            let scope = directory.isEmpty ? nil : try RelativeKey(checking: directory, for: .watch)
            let root = try store.location.get()
            let watch: any DirectoryWatching
            do throws(FileSystemError) {
                watch = try store.disk.makeDirectoryWatch(on: queue) {
                    self.handle($0)
                } onCancel: {
                    self.finish()
                }
            } catch {
                throw FileStoreError(error, .watch, key: directory)
            }
            let tree = WatchedTree(root, watch, scope, isCancelled: { self.isStopped }, report: { self.report($0) })
            self.tree = tree
            try tree.restart()
        } catch {
            stop(error)
        }
    }

    private func handle(_ events: [DirectoryEvent]) {
        guard let tree, !isStopped else { return }
        do throws(FileStoreError) { try tree.handle(events) } catch { stop(error) }
    }

    private func stop(_ failure: FileStoreError?) {
        guard state.withLock({ $0.stop(failure) }) else { return }
        guard let watch = tree?.watch else { return finish() }
        tree = nil
        watch.cancel()
    }

    private var isStopped: Bool { state.withLock { $0.phase == .stopped || $0.isCancelled } }

    private func finish() {
        let end = state.withLock { $0.finish() }
        if let (waiter, result) = end { waiter.resume(with: result) }
    }

    private func report(_ change: FileChange) {
        let delivery = state.withLock { $0.report(change) }
        if let (waiter, change) = delivery { waiter.resume(returning: change) }
    }
}

extension FileWatch {
    fileprivate struct State {
        typealias Waiter = CheckedContinuation<FileChange?, any Error>

        enum Phase {
            /// There are no resources.
            case idle
            case running
            /// The resources are being released.
            case stopped
            case finished
        }

        private(set) var phase = Phase.idle
        private(set) var isCancelled = false
        private var buffer = FileChangeBuffer()
        private var waiter: Waiter?
        /// The reason of the end, until it is thrown.
        private var failure: FileStoreError?

        /// The next change or the end, if there is one now, and whether the watch must be started.
        mutating func takeChange(orWait waiter: Waiter) -> (Result<FileChange?, any Error>?, starts: Bool) {
            if let change = buffer.popFirst() { return (.success(change), false) }
            if phase == .finished { return (end(), false) }
            self.waiter = waiter
            defer { if phase == .idle { phase = .running } }
            return (nil, phase == .idle)
        }

        /// Returns whether the watch must be stopped.
        mutating func cancel() -> Bool {
            isCancelled = true
            buffer.removeAll()
            if phase == .idle { phase = .finished }
            return phase == .running
        }

        /// Returns whether the resources must be released.
        mutating func stop(_ failure: FileStoreError?) -> Bool {
            guard phase == .running else { return false }
            phase = .stopped
            if !isCancelled { self.failure = failure }
            return true
        }

        mutating func finish() -> (Waiter, Result<FileChange?, any Error>)? {
            phase = .finished
            guard let waiter else { return nil }
            self.waiter = nil
            return (waiter, end())
        }

        private mutating func end() -> Result<FileChange?, any Error> {
            guard let failure else { return .success(nil) }
            self.failure = nil
            return .failure(failure)
        }

        /// Keeps a change, and returns the first one if a consumer waits for it.
        mutating func report(_ change: FileChange) -> (Waiter, FileChange)? {
            guard phase == .running, !isCancelled else { return nil }
            buffer.append(change)
            guard let waiter, let first = buffer.popFirst() else { return nil }
            self.waiter = nil
            return (waiter, first)
        }
    }
}
