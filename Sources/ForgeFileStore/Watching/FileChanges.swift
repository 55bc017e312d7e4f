import ForgeFileSystem

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
