public import Dispatch
public import ForgeFileSystem
import Synchronization
public import SystemPackage

/// The path of every call: look up, decide, forward, record.
extension FaultingFileSystem {
    /// A call in progress.
    struct Call: Sendable {
        var record: OperationRecord
        var target: FaultCall
        var decision = FaultDecision()
        /// The open file of the call's descriptor, if known.
        var file: OpenedFile?
        /// The maximum number of bytes to transfer.
        var limit: Int?
    }

    /// Performs a call under the lock: `prepare` describes it, `effect` forwards it.
    func perform<Result: Sendable>(
        _ operation: FileSystemOperation, _ prepare: (inout State, inout Call) -> Void,
        undo: (inout State, Result) -> Void = { _, _ in },
        _ effect: (inout State, inout Call) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try state.withLock { (state) throws(FileSystemError) -> Result in
            var call = try begin(operation, &state, prepare)
            return try finish(&call, &state, undo: undo, effect)
        }
    }

    /// Looks up the call's file and decides its faults.
    func begin(
        _ operation: FileSystemOperation, _ state: inout State, _ prepare: (inout State, inout Call) -> Void
    ) throws(FileSystemError) -> Call {
        var call = Call(
            record: OperationRecord(operation, time: clock.now),
            target: FaultCall(operation: operation, paths: [], mutates: false, thread: Self.currentThread))
        call.record.thread = Self.currentThread
        // After a crash nothing is looked up: the descriptor numbers may have been reused.
        guard !state.isCrashed else { throw FileSystemError(operation, .ioError, underlying: ProcessCrashed()) }
        prepare(&state, &call)
        call.decision = plan.decide(call.target)
        call.record.faults = call.decision.notes
        clock.advance(by: call.decision.delay)
        return call
    }

    /// Forwards the call as decided and records it.
    func finish<Result>(
        _ call: inout Call, _ state: inout State, undo: (inout State, Result) -> Void,
        _ effect: (inout State, inout Call) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        defer { log.append(call.record) }
        let error: FileSystemError
        switch call.decision.verdict {
        case nil, .shorten, .failSynchronization:
            if case .shorten(let count) = call.decision.verdict { call.limit = count }
            let result = try forward(&call, &state, effect)
            if case .failSynchronization(let errno, _) = call.decision.verdict, let file = call.file {
                // A failure of background write-back; `synchronize` handles its own.
                state.plantError(errno, in: file.identity, except: nil)
            }
            return result
        case .fail(let errno, let happens):
            error = failure(errno, call)
            // close(2) releases the descriptor even if it fails.
            if happens == .none, call.record.operation != .close {
                call.record.isForwarded = false
            } else {
                do {
                    undo(&state, try forward(&call, &state, effect))
                } catch {
                    // Only a call that would have succeeded can fail after its effect.
                    guard call.record.operation == .close else { throw error }
                }
            }
        case .crash(let happens):
            if happens == .done {
                undo(&state, try forward(&call, &state, effect))
            } else {
                call.record.isForwarded = false
            }
            crash(&state)
            error = failure(.ioError, call, because: ProcessCrashed())
        }
        call.record.outcome = .failure(error.errno)
        throw error
    }

    private func forward<Result>(
        _ call: inout Call, _ state: inout State,
        _ effect: (inout State, inout Call) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        do {
            let result = try effect(&state, &call)
            call.record.isEffective = call.record.isForwarded
            return result
        } catch {
            call.record.outcome = .failure(error.errno)
            throw error
        }
    }

    func failure(_ errno: Errno, _ call: Call, because cause: (any Error)? = nil) -> FileSystemError {
        // As in a file system, the error has a path only if the call had one.
        FileSystemError(
            call.record.operation, errno, path: call.record.descriptor == nil ? call.record.path : nil,
            destination: call.record.destination, underlying: cause)
    }
}

// MARK: The file of a call

extension FaultingFileSystem.Call {
    typealias State = FaultingFileSystem.State

    /// Sets the open file of the call.
    mutating func setTarget(_ descriptor: Descriptor, _ state: State) {
        record.descriptor = Int(descriptor.rawValue)
        guard let file = state.files[descriptor] else { return }
        self.file = file
        record.descriptor = file.number
        record.path = file.path
        record.inode = file.inode
        record.isRegular = file.isRegular
        target.paths.append(file.path)
        target.inode = file.identity.inode
    }
}

extension FaultingFileSystem {
    /// Sets the file at a path, and the directory that contains its name.
    func setTarget(
        of call: inout Call, _ path: POSIXPath, at directory: Descriptor, followsLinks: Bool, _ state: State
    ) {
        let resolved = state.resolve(path, at: directory)
        call.record.path = resolved
        call.target.paths.append(resolved)
        defer { call.record.directory = directoryNumber(of: path, at: directory) }
        guard let status = lookUp(path, at: directory, followsLinks: followsLinks) else { return }
        call.target.inode = status.inode
        call.record.inode = log.number(of: InodeIdentity(status))
        call.record.sizeBefore = status.sizeInBytes
        call.record.linkCount = status.linkCount
        call.record.isRegular = status.type == .regular
    }

    /// Sets the file by its reference.
    func setTarget(of call: inout Call, _ file: FileReference, _ state: State) {
        switch file {
        case .descriptor(let descriptor): call.setTarget(descriptor, state)
        case .path(let path, at: let directory, let followsLinks):
            setTarget(of: &call, path, at: directory, followsLinks: followsLinks, state)
        }
    }

    /// The status of the file at a path; nil if it cannot be determined, in which case the call itself fails.
    func lookUp(_ path: POSIXPath, at directory: Descriptor, followsLinks: Bool) -> FileStatus? {
        do {
            return try base.status(path, at: directory, followsSymbolicLinks: followsLinks)
        } catch {
            return nil
        }
    }

    /// The status of an open file; nil if it cannot be determined.
    func lookUp(_ descriptor: Descriptor) -> FileStatus? {
        do {
            return try base.status(of: .descriptor(descriptor))
        } catch {
            return nil
        }
    }

    /// The log number of the directory that contains the last name of a path.
    func directoryNumber(of path: POSIXPath, at directory: Descriptor) -> Int? {
        let parent = path.splitLast().parent
        return lookUp(parent.isEmpty ? "." : parent, at: directory, followsLinks: true)
            .map { log.number(of: InodeIdentity($0)) }
    }

    /// Numbers a file that a call has created.
    func noteCreation(_ call: inout Call, _ path: POSIXPath, at directory: Descriptor) {
        call.record.isCreation = true
        guard let status = lookUp(path, at: directory, followsLinks: false) else { return }
        call.record.inode = log.number(of: InodeIdentity(status), isNew: true)
        call.record.isRegular = status.type == .regular
    }
}

/// A counter of calls that fails those with given numbers.
package final class CallCounter: Sendable {
    private let state: Mutex<State>

    private struct State {
        var count = 0
        var failing: Range<Int>
        var didFail = false
    }

    /// Creates a counter that fails the calls with these numbers, counted from 0.
    package init(failing: Range<Int> = 0..<0) {
        state = Mutex(State(failing: failing))
    }

    /// The number of calls.
    package var count: Int { state.withLock { $0.count } }

    /// Whether any call failed.
    package var didFail: Bool { state.withLock { $0.didFail } }

    /// Counts a call, and throws if it is to fail.
    package func countOrFail(_ operation: FileSystemOperation, _ path: POSIXPath?, _ errno: Errno)
        throws(FileSystemError)
    {
        let fails = state.withLock { state in
            defer { state.count += 1 }
            guard state.failing.contains(state.count) else { return false }
            state.didFail = true
            return true
        }
        if fails { throw FileSystemError(operation, errno, path: path) }
    }
}

extension FaultingFileSystem {
    public func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try perform(.open) { state, call in
            let followsLinks = !options.contains(.noFollow) && !options.contains(.exclusiveCreate)
            setTarget(of: &call, path, at: directory, followsLinks: followsLinks, state)
            call.target.createsName = options.contains(.create) && call.record.inode == nil
            call.target.mutates = mode != .readOnly || options.contains(.truncate) || call.target.createsName
            call.record.detail = Self.text(mode, options, permissions, resolution)
        } undo: { state, descriptor in
            // A caller that gets an error cannot close the new descriptor.
            do { try base.close(descriptor) } catch _ {}
            state.files[descriptor] = nil
        } _: { (state, call) throws(FileSystemError) in
            let creates = call.target.createsName
            let descriptor = try base.open(
                path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
            register(descriptor, &call, &state, isCreation: creates, appends: options.contains(.append))
            if options.contains(.truncate), call.record.isRegular { call.record.newSize = 0 }
            return descriptor
        }
    }

    private func register(
        _ descriptor: Descriptor, _ call: inout Call, _ state: inout State, isCreation: Bool, appends: Bool
    ) {
        guard let status = lookUp(descriptor), let path = call.record.path else { return }
        let identity = InodeIdentity(status)
        state.openFileCount += 1
        let file = OpenedFile(
            path: path, identity: identity, inode: log.number(of: identity, isNew: isCreation),
            isRegular: status.type == .regular, appends: appends, openFile: state.openFileCount,
            number: state.freeNumber)
        state.files[descriptor] = file
        if isCreation { state.staleSectors[identity] = nil }
        call.record.isCreation = isCreation
        call.record.inode = file.inode
        call.record.isRegular = file.isRegular
        call.record.outcome = .success("fd\(file.number)")
    }

    public func close(_ descriptor: Descriptor) throws(FileSystemError) {
        try perform(.close) { state, call in
            call.setTarget(descriptor, state)
            guard let file = call.file else { return }
            call.record.isLastDescriptorOfFile = state.files.values.count { $0.inode == file.inode } == 1
        } _: { (state, _) throws(FileSystemError) in
            state.files[descriptor] = nil
            try base.close(descriptor)
        }
    }

    public func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try perform(.duplicate) { state, call in
            call.setTarget(descriptor, state)
        } undo: { state, copy in
            do { try base.close(copy) } catch _ {}
            state.files[copy] = nil
        } _: { (state, call) throws(FileSystemError) in
            let copy = try base.duplicate(descriptor)
            guard var file = call.file else { return copy }
            file.number = state.freeNumber
            state.files[copy] = file
            call.record.outcome = .success("fd\(file.number)")
            return copy
        }
    }

    public func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        func prepare(_ state: inout State, _ call: inout Call) {
            call.setTarget(descriptor, state)
            call.record.detail = waiting ? "\(mode) waiting" : "\(mode)"
        }
        guard waiting else {
            return try perform(.lock, prepare) { (_, _) throws(FileSystemError) in
                try base.lock(descriptor, mode, waiting: false)
            }
        }
        // Waiting under the lock would prevent other threads from releasing the file lock.
        var call = try state.withLock { (state) throws(FileSystemError) in try begin(.lock, &state, prepare) }
        var outcome = Result<Void, FileSystemError>.success(())
        if call.reachesBase {
            do throws(FileSystemError) {
                try base.lock(descriptor, mode, waiting: true)
            } catch {
                outcome = .failure(error)
            }
        }
        try state.withLock { (state) throws(FileSystemError) in
            try finish(&call, &state, undo: { _, _ in }) { (_, _) throws(FileSystemError) in try outcome.get() }
        }
    }

    /// Creates a watch. Watching a directory is a call of its own, to which rules apply.
    public func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        guard !isCrashed else { throw FileSystemError(.watch, .ioError, underlying: ProcessCrashed()) }
        let watch = try base.makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
        return ObservedWatch(watch) { [self] (directory, body) throws(FileSystemError) in
            try perform(.watch) { state, call in
                call.setTarget(directory, state)
            } undo: { _, number in
                watch.unwatch(number)
            } _: { (_, _) throws(FileSystemError) in
                try body()
            }
        }
    }

    /// Creates a signal; no rule applies to it.
    public func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        guard !isCrashed else { throw FileSystemError(.watch, .ioError, underlying: ProcessCrashed()) }
        return try base.makeSignal(of: descriptor)
    }

    public func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try perform(.list) { state, call in
            call.setTarget(descriptor, state)
        } _: { (_, call) throws(FileSystemError) in
            let entries = try base.entries(of: descriptor)
            call.record.outcome = .success("\(entries.count) entries")
            return entries
        }
    }

    private static func text(
        _ mode: FileDescriptor.AccessMode, _ options: FileDescriptor.OpenOptions, _ permissions: FilePermissions,
        _ resolution: PathResolution
    ) -> String {
        var words: [String] = []
        switch mode {
        case .readOnly: words.append("readOnly")
        case .writeOnly: words.append("writeOnly")
        case .readWrite: words.append("readWrite")
        default: words.append("mode \(mode.rawValue)")
        }
        let names: [(FileDescriptor.OpenOptions, String)] = [
            (.create, "create"), (.exclusiveCreate, "exclusiveCreate"), (.truncate, "truncate"), (.append, "append"),
            (.directory, "directory"), (.noFollow, "noFollow"), (.nonBlocking, "nonBlocking"),
        ]
        words += names.filter { options.contains($0.0) }.map(\.1)
        if resolution.contains(.beneath) { words.append("beneath") }
        if resolution.contains(.noSymbolicLinks) { words.append("noSymbolicLinks") }
        if options.contains(.create) { words.append(permissions.octal) }
        return words.joined(separator: ",")
    }
}

extension FaultingFileSystem.Call {
    /// Whether the call is forwarded.
    fileprivate var reachesBase: Bool {
        switch decision.verdict {
        case .fail(_, .none), .crash(.none): false
        default: true
        }
    }
}

extension FilePermissions {
    /// The mode in the octal notation of `chmod(1)`.
    var octal: String { "0" + String(rawValue, radix: 8) }
}

/// Passes the watching of each directory to a closure, which forwards it by calling its second argument.
struct ObservedWatch: DirectoryWatching {
    typealias Observer =
        @Sendable (Descriptor, () throws(FileSystemError) -> Int) throws(FileSystemError) -> Int

    private let base: any DirectoryWatching
    private let observe: Observer

    init(_ base: any DirectoryWatching, _ observe: @escaping Observer) {
        self.base = base
        self.observe = observe
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        try observe(directory) { () throws(FileSystemError) in
            try base.watch(directory, includesWrites: includesWrites)
        }
    }

    func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int {
        try observe(directory) { () throws(FileSystemError) in try base.watchExistence(of: directory) }
    }

    func unwatch(_ number: Int) { base.unwatch(number) }

    func cancel() { base.cancel() }
}
