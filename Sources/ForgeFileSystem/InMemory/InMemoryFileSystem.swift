public import Foundation
import Synchronization
public import SystemPackage

/// An in-memory file system that behaves like the one on disk, including errors and corner cases.
///
/// It is a tree of inodes with byte names, hard and symbolic links, permissions, sparse contents, open files and locks,
/// not a dictionary of paths. It starts with an empty root directory and shares nothing with the disk or with another
/// `InMemoryFileSystem`. The behaviour of the disk is the reference: both pass the same conformance checks.
///
/// ```swift
/// let fileSystem = InMemoryFileSystem()
/// try fileSystem.createDirectory(at: URL(filePath: "/cache"), withIntermediateDirectories: true)
/// fileSystem.writeError = CocoaError(.fileWriteOutOfSpace)
/// ```
///
/// One lock guards the whole tree, so every operation is atomic and visible to all threads when it returns. Nothing
/// depends on the wall clock or on a random seed: the same calls give the same results in every run.
///
/// Limitations: no call blocks on a FIFO, but fails with `EAGAIN` where it would have to wait, or `ENXIO` on opening
/// it; sockets and devices can be created and removed, but opening one is `ENXIO`; `synchronize` has no effect.
///
/// Not simulated: access control lists, file flags, mandatory locks, quotas of users, the time that a device takes, and,
/// with `Profile.darwin`, resource forks, clones and protection classes; ForgeCrashTesting's `SimulatedDevice` has those
/// classes, and its `CrashExplorer` what a power cut may lose.
public final class InMemoryFileSystem: POSIXFileSystem, Sendable {
    let tree: Tree
    let process: Int

    /// The tree shared by the views of all processes.
    final class Tree: Sendable {
        let state: Mutex<State>

        init(_ state: consuming sending State) {
            self.state = Mutex(state)
        }
    }

    /// An empty file system.
    public convenience init(options: Options = Options()) {
        self.init(State(options: options))
    }

    /// A file system that starts with the tree of an image.
    package convenience init(_ image: DiskImage) {
        self.init(State(image: image))
    }

    private convenience init(_ state: consuming sending State) {
        let options = state.options
        let tree = Tree(state)
        let first = Process(user: options.user, group: options.group, groups: options.groups, umask: options.umask)
        self.init(tree: tree, process: tree.state.withLock { $0.add(first) })
    }

    private init(tree: Tree, process: Int) {
        self.tree = tree
        self.process = process
    }

    deinit {
        tree.state.withLock { $0.remove(process) }
    }

    // MARK: Processes

    /// A view of the same tree for another process, with its own descriptors, user, umask and working directory (`/`).
    ///
    /// Arguments that are nil are inherited from this process. The process ends, and its descriptors are closed, when
    /// the returned object is released.
    public func process(
        user: UserID? = nil, group: GroupID? = nil, groups: [GroupID]? = nil, umask: FilePermissions? = nil
    ) -> InMemoryFileSystem {
        let process = tree.state.withLock { state in
            let parent = state.processes[self.process]
            return state.add(
                Process(
                    user: user ?? parent.user, group: group ?? parent.group, groups: groups ?? parent.groups,
                    umask: umask ?? parent.umask))
        }
        return InMemoryFileSystem(tree: tree, process: process)
    }

    /// Ends the process as `kill -9` does: its descriptors are closed, its locks released.
    ///
    /// Afterwards this object represents a new process of the same user, with `/` as its working directory.
    public func endProcess() {
        tree.state.withLock { $0.restart(process) }
    }

    /// All open descriptors of this process, in ascending order.
    public var openDescriptors: [Descriptor] {
        tree.state.withLock { $0.processes[process].descriptors.all }
    }

    /// Sets this process's working directory (`chdir(2)`).
    public func changeDirectory(_ path: POSIXPath) throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in try state.changeDirectory(path) }
    }

    /// Empties the tree, closes all open files of all processes, and clears ``writeError`` and ``readError``.
    public func reset() {
        tree.state.withLock { $0.reset() }
    }

    /// False with the profile of Darwin, as on the system.
    public var reportsErrorsOfMappings: Bool { tree.state.withLock { $0.options.profile == .linux } }

    public var effectiveUser: UserID {
        tree.state.withLock { $0.processes[process].user }
    }

    /// 64 bits determined by ``Options/seed`` and the number of earlier calls.
    public func randomBits() -> UInt64 {
        tree.state.withLock { $0.randomBits() }
    }

    /// Performs one operation of this process under the lock and adds its name to its error.
    @inline(__always)
    func perform<Result: Sendable>(
        _ operation: FileSystemOperation, _ path: POSIXPath? = nil, to destination: POSIXPath? = nil,
        _ body: (inout State) throws(Errno) -> Result
    ) throws(FileSystemError) -> Result {
        var cause: (any Error)?
        do throws(Errno) {
            if path?.containsNUL == true || destination?.containsNUL == true { throw .invalidArgument }
            return try tree.state.withLock { (state) throws(Errno) -> Result in
                state.begin(process)
                do throws(Errno) {
                    return try body(&state)
                } catch {
                    if error == .ioError { cause = state.cause }
                    throw error
                }
            }
        } catch {
            throw FileSystemError(operation, error, path: path, destination: destination, underlying: cause)
        }
    }
}

/// Injected failures, and the two calls that throw them unchanged.
extension InMemoryFileSystem {
    /// While set, every call that would store content fails, for all processes.
    ///
    /// ``write(_:to:)`` throws the error unchanged. At the descriptor level, `write`, `truncate`, `allocate` and an
    /// `open` that would create or truncate a file throw a ``FileSystemError`` with `EIO` and this error underlying.
    /// Directories, links, names and attributes are not content and can still be changed; no stored data is lost. At
    /// the descriptor level, errors detected before storing, such as a missing parent directory, take precedence.
    ///
    /// Stores use descriptors, so they see `EIO`: with `CocoaError(.fileWriteOutOfSpace)` a `DiskFileStore` throws
    /// `.unavailable`, not `.noSpace`. To simulate a full device (`ENOSPC`), call ``setQuota(_:at:)``.
    public var writeError: (any Error)? {
        get { tree.state.withLock { $0.writeError } }
        set { tree.state.withLock { $0.writeError = newValue } }
    }

    /// While set, every call that would read content fails, for all processes.
    ///
    /// ``read(from:)`` throws the error unchanged; at the descriptor level, `read` throws a ``FileSystemError`` with
    /// `EIO` and this error underlying. Attributes, names and links remain readable.
    public var readError: (any Error)? {
        get { tree.state.withLock { $0.readError } }
        set { tree.state.withLock { $0.readError = newValue } }
    }

    public func write(_ data: Data, to url: URL) throws {
        if let writeError { throw writeError }
        try replaceContents(of: url, with: data)
    }

    public func read(from url: URL) throws -> Data {
        if let readError { throw readError }
        return try contents(of: url)
    }
}

/// Support for crash explorers: the tree as a value, and a recording of every later change.
extension InMemoryFileSystem {
    /// All named files as all processes see them now.
    package var image: DiskImage {
        tree.state.withLock { $0.image }
    }

    /// The number of a file in images and effects, which is never used for another one and survives a crash; the number in
    /// its status is reused.
    package func identity(of file: FileReference) throws(FileSystemError) -> UInt64 {
        try perform(.status, file.path) { (state) throws(Errno) in state.inodes[try state.inode(of: file)].number }
    }

    /// Discards the recording and starts a new one, for all processes; `reset()` ends it.
    package func startRecordingEffects() {
        tree.state.withLock { $0.recording = EffectRecording() }
    }

    /// Returns and clears the recording, which continues.
    package func takeEffects() -> [RecordedEffect] {
        tree.state.withLock { state in
            let effects = state.recording?.effects ?? []
            state.recording?.effects = []
            return effects
        }
    }

    /// Records a mark between earlier and later changes.
    package func recordMark(_ number: Int) {
        tree.state.withLock { $0.record(.mark(number)) }
    }

    /// Records a failed synchronisation; called by the wrapper that injects the failure.
    ///
    /// The data that it would have covered stays undetermined: later successes do not cover it.
    package func recordFailedSynchronization(
        of descriptor: Descriptor, _ level: SyncLevel = .full
    ) throws(FileSystemError) {
        try perform(.synchronize) { (state) throws(Errno) in
            state.failToSynchronize(state.openFiles[try state.openFile(descriptor)].inode, level)
        }
    }
}
