public import Dispatch
public import ForgeFileStore
public import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
public import SystemPackage

// Memory safety: A buffer is used only during the call that passes it. An address in a mapping is valid for the
// lifetime of the mapping.

/// The files of a ``SimulatedDevice`` as one process of the app sees them, with protection classes enforced.
///
/// It is an `InMemoryFileSystem` that enforces the class of each file: reading or writing content that the lock state
/// makes inaccessible throws `EPERM`, as on a real device. Names, sizes and other attributes are always readable, and
/// files can always be renamed and removed. A new file or directory inherits the class of its directory, and keeps it
/// when moved; the default class is `FileProtection.completeUntilFirstUserAuthentication`.
///
/// After the process has ended (``SimulatedDevice/crash(_:)`` and similar events), every call throws `EIO` with
/// ``ProcessEnded`` underlying and has no effect, so that tasks that survive the process cannot change the disk. Calls
/// that wait for a lock, and tasks that wait for changes of a directory, end with the same error.
///
/// Not simulated: the ten seconds after the lock in which files of the class `complete` stay accessible, snapshots,
/// `URLResourceValues`, and the sandbox: a process can reach every path of the disk.
public final class DeviceFileSystem: POSIXFileSystem {
    private let view: InMemoryFileSystem
    private let rules: DataProtection
    private let hasEnded = Atomic(false)
    private let watches = Mutex<[ObjectIdentifier: DeviceWatch]>([:])

    /// A view of a disk for a new process.
    init(_ disk: InMemoryFileSystem, _ rules: DataProtection) {
        view = disk.process()
        self.rules = rules
    }

    /// Ends the process: closes its files, releases its locks, and ends its calls that wait.
    func endProcess() {
        hasEnded.store(true, ordering: .sequentiallyConsistent)
        view.endProcess()
        let ended = watches.withLock { watches in
            defer { watches = [:] }
            return Array(watches.values)
        }
        // Each observer then lists its directories again, and receives the error of the ended process.
        for watch in ended { watch.reportLoss() }
    }

    /// All open descriptors of the process, in ascending order.
    public var openDescriptors: [Descriptor] { view.openDescriptors }

    public var effectiveUser: UserID { view.effectiveUser }

    public var reportsErrorsOfMappings: Bool { view.reportsErrorsOfMappings }

    public var preciseTime: FileTime? { view.preciseTime }

    public func randomBits() -> UInt64 { view.randomBits() }

    // MARK: Protection

    /// The class of a file or directory.
    public func protection(of path: POSIXPath) throws(FileSystemError) -> FileProtection {
        rules[try live(.status, path).identity(of: .path(path))]
    }

    /// Sets the class of a file or directory; entries created in a directory later inherit its class.
    ///
    /// - Throws: `FileSystemError`; `EPERM` for a file whose content is inaccessible at present, or which could not be
    ///   created with the new class at present. The class is unchanged then.
    public func setProtection(_ protection: FileProtection, of path: POSIXPath) throws(FileSystemError) {
        let view = try live(.setPermissions, path)
        let identity = try view.identity(of: .path(path))
        if try view.status(path).type == .regular,
            !rules.allows(.opening, rules[identity]) || !rules.allows(.creating, protection)
        {
            throw locked(.setPermissions, path)
        }
        rules[identity] = protection
    }

    private func locked(_ operation: FileSystemOperation, _ path: POSIXPath? = nil) -> FileSystemError {
        FileSystemError(operation, .notPermitted, path: path, underlying: ProtectedDataUnavailable())
    }

    /// The view of the process; throws once the process has ended.
    func live(_ operation: FileSystemOperation, _ path: POSIXPath? = nil) throws(FileSystemError) -> InMemoryFileSystem
    {
        guard !hasEnded.load(ordering: .sequentiallyConsistent) else {
            throw FileSystemError(operation, .ioError, path: path, underlying: ProcessEnded())
        }
        return view
    }

    private func live(
        _ operation: FileSystemOperation, _ file: FileReference
    ) throws(FileSystemError) -> InMemoryFileSystem {
        guard case .path(let path, at: _, followsSymbolicLinks: _) = file else { return try live(operation) }
        return try live(operation, path)
    }

    /// The view of the process; throws `EPERM` if the content of an open file is inaccessible at present.
    private func viewForContent(
        of descriptor: Descriptor, for operation: FileSystemOperation
    ) throws(FileSystemError) -> InMemoryFileSystem {
        let view = try live(operation)
        guard rules.lock != .unlocked else { return view }
        let file = FileReference.descriptor(descriptor)
        guard try view.status(of: file).type == .regular else { return view }
        guard rules.allows(.accessing, rules[try view.identity(of: file)]) else { throw locked(operation) }
        return view
    }

    /// The status of a file; nil if it cannot be determined, in which case the call itself fails with the reason.
    private func status(of file: FileReference) -> FileStatus? {
        do throws(FileSystemError) {
            return try view.status(of: file)
        } catch {
            return nil
        }
    }

    /// The class of a file; the default class if it cannot be determined.
    private func protection(of file: FileReference) -> FileProtection {
        do throws(FileSystemError) {
            return rules[try view.identity(of: file)]
        } catch {
            return DataProtection.standard
        }
    }

    /// Gives a new file or directory its class.
    private func adopt(_ file: FileReference, _ protection: FileProtection) {
        do throws(FileSystemError) {
            rules[try view.identity(of: file)] = protection
        } catch _ {}  // Another process has removed the file already.
    }

    /// The class that a new file or directory at a path inherits.
    private func inherited(_ path: POSIXPath, at directory: Descriptor) -> FileProtection {
        let parent = path.splitLast().parent
        return protection(of: .path(parent.isEmpty ? "." : parent, at: directory))
    }
}

extension DeviceFileSystem: FileProtecting {}

// MARK: Content

extension DeviceFileSystem {
    public func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        let view = try live(.open, path)
        func open() throws(FileSystemError) -> Descriptor {
            try view.open(
                path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
        }
        guard options.contains(.create) || rules.lock != .unlocked else { return try open() }
        let follows = !options.contains(.noFollow)
        let file = FileReference.path(path, at: directory, followsSymbolicLinks: follows)
        if let existing = status(of: file) {
            let opensExisting = !options.contains([.create, .exclusiveCreate])
            if existing.type == .regular, opensExisting, !rules.allows(.opening, protection(of: file)) {
                throw locked(.open, path)
            }
            return try open()
        }
        guard options.contains(.create) else { return try open() }
        let protection = inherited(path, at: directory)
        guard rules.allows(.creating, protection) else { throw locked(.open, path) }
        let descriptor = try open()
        adopt(.descriptor(descriptor), protection)
        return descriptor
    }

    /// Closes a descriptor; throws `EIO` after the process has ended, which closed all its descriptors.
    public func close(_ descriptor: Descriptor) throws(FileSystemError) {
        try live(.close).close(descriptor)
    }

    public func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try live(.duplicate).duplicate(descriptor)
    }

    public func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try unsafe viewForContent(of: descriptor, for: .read).read(descriptor, into: buffer, at: offset)
    }

    public func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try unsafe viewForContent(of: descriptor, for: .write).write(descriptor, from: buffer, at: offset)
    }

    public func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        _ = try viewForContent(of: source, for: .copyRange)
        return try viewForContent(of: target, for: .copyRange).copyRange(
            from: source, at: sourceOffset, to: target, at: targetOffset, count: count)
    }

    public func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try live(.seek).seek(descriptor, to: offset, from: origin)
    }

    public func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        switch file {
        case .descriptor(let descriptor):
            try viewForContent(of: descriptor, for: .truncate).truncate(file, to: sizeInBytes)
        case .path(let path, at: _, followsSymbolicLinks: _):
            let view = try live(.truncate, path)
            if let existing = status(of: file), existing.type == .regular,
                !rules.allows(.opening, protection(of: file))
            {
                throw locked(.truncate, path)
            }
            try view.truncate(file, to: sizeInBytes)
        }
    }

    public func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try viewForContent(of: descriptor, for: .allocate).allocate(descriptor, at: offset, length: length)
    }

    public func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try live(.synchronize).synchronize(descriptor, level)
    }

    /// Maps part of a file whose content is accessible.
    ///
    /// A file of the class `complete` cannot be mapped (`ENODEV`), as with `SystemFileSystem` on a real device: locking
    /// would remove its pages, and an access would then raise a signal. If the class is set after the file was mapped,
    /// such an access traps with a message.
    ///
    /// - Throws: `FileSystemError`; `EPERM` while the content is inaccessible.
    public func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        let view = try viewForContent(of: descriptor, for: .map)
        let mapping = try view.map(descriptor, at: offset, count: count)
        let inode = try view.identity(of: .descriptor(descriptor))
        guard rules[inode] != .complete else { throw FileSystemError(.map, .operationNotSupportedByDevice) }
        return unsafe FileMapping(
            watching: mapping,
            load: { [self] mapping, range in
                if !range.isEmpty { requireReachable(inode) }
                return unsafe mapping.bytes(in: range)
            },
            store: { [self] mapping, bytes, place in
                requireReachable(inode)
                unsafe mapping.store(bytes, at: place)
            },
            writeBack: { [self] (mapping) throws(FileSystemError) in
                _ = try live(.writeBack)
                guard rules.allows(.accessing, rules[inode]) else { throw locked(.writeBack) }
                try mapping.writeBack()
            })
    }

    /// Traps where a real process would receive `SIGBUS`; has no effect after the process has ended.
    private func requireReachable(_ inode: UInt64) {
        precondition(
            hasEnded.load(ordering: .sequentiallyConsistent) || rules.allows(.accessing, rules[inode]),
            "SIGBUS: the content of the mapped file \(inode) cannot be reached while the device is locked")
    }

    public func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        let base = try live(.watch).makeDirectoryWatch(on: queue, onEvents: onEvents, onCancel: onCancel)
        let watch = DeviceWatch(base, queue, onEvents) { [self] watch in
            watches.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(watch)) }
        }
        watches.withLock { $0[ObjectIdentifier(watch)] = watch }
        // The process may have ended before the watch was registered.
        if hasEnded.load(ordering: .sequentiallyConsistent) { watch.reportLoss() }
        return watch
    }

    public func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        try live(.watch).makeSignal(of: descriptor)
    }

    public func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        do throws(FileSystemError) {
            try live(.lock).lock(descriptor, mode, waiting: waiting)
        } catch {
            // The end of the process closes the descriptor of a waiting call: report that end instead.
            _ = try live(.lock)
            throw error
        }
    }
}

// MARK: Attributes

extension DeviceFileSystem {
    public func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try live(.status, file).status(of: file)
    }

    public func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try live(.setPermissions, file).setPermissions(permissions, of: file)
    }

    public func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try live(.setOwner, file).setOwner(owner, group: group, of: file)
    }

    public func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError) {
        try live(.setTimes, file).setTimes(accessed: accessed, modified: modified, of: file)
    }
}

// MARK: Extended attributes

extension DeviceFileSystem {
    public func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try live(.listExtendedAttributes).extendedAttributeNames(of: descriptor)
    }

    public func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try live(.readExtendedAttribute).extendedAttribute(name, of: descriptor)
    }

    public func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try live(.setExtendedAttribute).setExtendedAttribute(name, to: value, of: descriptor)
    }
}

// MARK: Creation

extension DeviceFileSystem {
    public func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        let view = try live(.createDirectory, path)
        let protection = inherited(path, at: directory)
        try view.createDirectory(path, at: directory, permissions: permissions)
        adopt(.path(path, at: directory, followsSymbolicLinks: false), protection)
    }

    public func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        let view = try live(.createNode, path)
        let protection = inherited(path, at: directory)
        guard type != .regular || rules.allows(.creating, protection) else { throw locked(.createNode, path) }
        try view.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
        adopt(.path(path, at: directory, followsSymbolicLinks: false), protection)
    }
}

/// A watch that also reports a loss of events when its process ends, so that the observer looks again.
private final class DeviceWatch: DirectoryWatching {
    private let base: any DirectoryWatching
    private let queue: DispatchQueue
    private let onEvents: @Sendable ([DirectoryEvent]) -> Void
    private let forget: @Sendable (DeviceWatch) -> Void

    init(
        _ base: any DirectoryWatching, _ queue: DispatchQueue,
        _ onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void, forget: @escaping @Sendable (DeviceWatch) -> Void
    ) {
        self.base = base
        self.queue = queue
        self.onEvents = onEvents
        self.forget = forget
    }

    func reportLoss() {
        queue.async { [onEvents] in onEvents([.lost]) }
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        try base.watch(directory, includesWrites: includesWrites)
    }

    func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int {
        try base.watchExistence(of: directory)
    }

    func unwatch(_ number: Int) { base.unwatch(number) }

    func cancel() {
        forget(self)
        base.cancel()
    }
}

/// Names are not content: they can be listed and changed while the device is locked.
extension DeviceFileSystem {
    public func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try live(.createSymbolicLink, path).createSymbolicLink(path, at: directory, to: target)
    }

    public func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try live(.readSymbolicLink, path).readSymbolicLink(path, at: directory)
    }

    public func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try live(.link, path).link(path, at: directory, to: newPath, at: newDirectory)
    }

    public func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try live(.rename, path).rename(path, at: directory, to: newPath, at: newDirectory, mode)
    }

    public func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try live(.unlink, path).unlink(path, at: directory)
    }

    public func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try live(.removeDirectory, path).removeDirectory(path, at: directory)
    }

    public func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try live(.list).entries(of: descriptor)
    }
}

/// The underlying error of the `EIO` that a file system throws after its process has ended.
public struct ProcessEnded: Error, Hashable, CustomStringConvertible {
    public var description: String { "the process has ended" }

    /// Creates the error.
    public init() {}
}
