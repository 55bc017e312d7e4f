public import Dispatch
public import ForgeFileSystem
import Synchronization
public import SystemPackage

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
        } _: { (state, call) throws(FileSystemError) in
            let file = state.files.removeValue(forKey: descriptor)
            if let file, !state.files.values.contains(where: { $0.openFile == file.openFile }) {
                state.pendingErrors[file.openFile] = nil
            }
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
