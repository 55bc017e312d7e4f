import Dispatch
import ForgeFileSystem
import Synchronization

/// The changes of files.
extension FileStoreEngine {
    func changes(in directory: String) -> FileChanges {
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

    private let engine: FileStoreEngine
    private let directory: String
    /// All work on the tree is done here.
    private let queue = DispatchQueue(label: "ForgeStorage.FileWatch")
    private let state = Mutex(State())
    /// Nil before the start and after the end.
    private var tree: WatchedTree?

    init(_ engine: FileStoreEngine, _ directory: String) {
        self.engine = engine
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
        update { () throws(FileStoreError) in
            let scope = directory.isEmpty ? nil : try RelativeKey(checking: directory, for: .watch)
            let root = try engine.root.get()
            let watch: any DirectoryWatching
            do throws(FileSystemError) {
                watch = try engine.fileSystem.makeDirectoryWatch(on: queue) {
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
        }
    }

    private func handle(_ events: [DirectoryEvent]) {
        guard let tree else { return }
        update { () throws(FileStoreError) in try tree.handle(events) }
    }

    private func update(_ body: () throws(FileStoreError) -> Void) {
        guard !isStopped else { return }
        do {
            try body()
        } catch {
            stop(error)
        }
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
