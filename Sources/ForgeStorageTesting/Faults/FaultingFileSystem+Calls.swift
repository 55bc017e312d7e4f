import ForgeFileSystem
import Synchronization
import SystemPackage

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
            if case .failSynchronization(let errno, let audience) = call.decision.verdict, let file = call.file {
                // A failure of background write-back; `synchronize` handles its own.
                if audience != .unreported { state.plantError(errno, in: file.identity, except: nil) }
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
