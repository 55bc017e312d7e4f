import Dispatch
import SystemPackage

extension InMemoryFileSystem.State {
    typealias OpenFile = InMemoryFileSystem.OpenFile

    /// The checks in the order of Linux: flags, path, descriptors, resolution, the last component, its type,
    /// permission.
    mutating func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        _ flags: FileDescriptor.OpenOptions, _ permissions: FilePermissions, _ resolution: PathResolution
    ) throws(Errno) -> Descriptor {
        guard mode == .readOnly || mode == .writeOnly || mode == .readWrite, !flags.contains([.create, .directory])
        else { throw .invalidArgument }
        try check(path, resolution)
        try requireFreeDescriptor()
        var walk = try start(path, at: directory, resolution)
        let index = try openInode(&walk, mode, flags, permissions)
        return insertOpenFile(index, mode, flags)
    }

    /// Opens an inode whose permissions were checked, and returns a new descriptor.
    mutating func insertOpenFile(
        _ index: Int, _ mode: FileDescriptor.AccessMode, _ flags: FileDescriptor.OpenOptions
    ) -> Descriptor {
        hold(index)
        let file = openFiles.insert(
            OpenFile(
                inode: index, isReadable: mode != .writeOnly, isWritable: mode != .readOnly,
                appends: flags.contains(.append)))
        return processes[current].descriptors.insert(file)
    }

    private mutating func openInode(
        _ walk: inout Walk, _ mode: FileDescriptor.AccessMode, _ flags: FileDescriptor.OpenOptions,
        _ permissions: FilePermissions
    ) throws(Errno) -> Int {
        let creates = flags.contains(.create)
        let isExclusive = creates && flags.contains(.exclusiveCreate)
        let followsLinks = !flags.contains(.noFollow) && !isExclusive
        let found: Int
        try walkToLast(&walk)
        search: while true {
            switch walk.last {
            case .root, .dot:
                found = walk.directory
                break search
            case .dotDot:
                found = try parent(walk)
                break search
            case .name:
                break
            }
            guard !creates || !walk.hasTrailingSlash else { throw .isDirectory }
            guard let candidate = try find(walk) else {
                guard creates else { throw .noSuchFileOrDirectory }
                return try createFile(walk, permissions)
            }
            if isSymbolicLink(candidate), followsLinks || walk.hasTrailingSlash {
                try follow(candidate, &walk)
                try walkToLast(&walk)
                continue
            }
            guard !walk.hasTrailingSlash || isDirectory(candidate) else { throw .notDirectory }
            found = candidate
            break
        }
        if isExclusive { throw .fileExists }
        if creates {
            guard !isDirectory(found) else { throw .isDirectory }
            try requirePermissionToOpenForCreation(found, in: walk.directory)
        }
        if flags.contains(.directory), !isDirectory(found) { throw .notDirectory }
        try openExisting(found, mode, flags)
        return found
    }

    private mutating func createFile(_ walk: Walk, _ permissions: FilePermissions) throws(Errno) -> Int {
        try requireWritableDevice(walk.directory)
        try requirePermissionToCreate(in: walk.directory)
        if let writeError { throw failure(because: writeError) }
        let index = try createInode(.regular, permissions, in: walk.directory)
        addName(walk, to: index)
        return index
    }

    mutating func openExisting(
        _ index: Int, _ mode: FileDescriptor.AccessMode, _ flags: FileDescriptor.OpenOptions
    ) throws(Errno) {
        let truncates = flags.contains(.truncate)
        var access: Access = []
        if mode != .writeOnly { access.insert(.read) }
        if mode != .readOnly || truncates { access.insert(.write) }
        if isSymbolicLink(index) { throw .tooManySymbolicLinkLevels }
        if isDirectory(index), access.contains(.write) { throw .isDirectory }
        let isSpecial = !isRegular(index) && !isDirectory(index)
        if access.contains(.write), !isSpecial { try requireWritableDevice(index) }
        try require(access, to: index)
        if inodes[index].kind == .fifo {
            try requireOtherEnd(of: index, mode, flags)
            return
        }
        // Sockets and devices are names only, without a peer or driver.
        guard !isSpecial else { throw .noSuchAddressOrDevice }
        guard truncates else { return }
        if let writeError { throw failure(because: writeError) }
        dropPrivilegeBits(index)
        setSize(0, of: index)
    }

    mutating func close(_ descriptor: Descriptor) throws(Errno) {
        guard let file = processes[current].descriptors.remove(descriptor) else { throw .badFileDescriptor }
        releaseOpenFile(file)
    }

    mutating func duplicate(_ descriptor: Descriptor) throws(Errno) -> Descriptor {
        let file = try openFile(descriptor)
        try requireFreeDescriptor()
        openFiles[file].descriptorCount += 1
        return processes[current].descriptors.insert(file)
    }

    /// The index of the open file of a descriptor in the table of open files.
    @inline(__always) func openFile(_ descriptor: Descriptor) throws(Errno) -> Int {
        guard let file = processes[current].descriptors[descriptor] else { throw .badFileDescriptor }
        return file
    }

    @inline(__always) func requireFreeDescriptor() throws(Errno) {
        guard processes[current].descriptors.count < options.maximumOpenFileCount else { throw .tooManyOpenFiles }
    }

    /// Removes one descriptor of an open file, which is closed with the last one.
    mutating func releaseOpenFile(_ file: Int) {
        openFiles[file].descriptorCount -= 1
        guard openFiles[file].descriptorCount == 0 else { return }
        unlock(file)
        let index = openFiles[file].inode
        if !watches.isEmpty, openFiles[file].isWritable { notifyWritten(index) }
        openFiles.remove(file)
        if inodes[index].kind == .fifo { drainPipe(index) }
        release(index)
    }
}

extension InMemoryFileSystem.State {
    /// Starts a process in the root directory and returns its index in the table.
    mutating func add(_ process: InMemoryFileSystem.Process) -> Int {
        hold(Self.root)
        guard let free = processes.firstIndex(where: { !$0.isAlive }) else {
            processes.append(process)
            return processes.count - 1
        }
        processes[free] = process
        return free
    }

    /// Ends a process and frees its slot.
    mutating func remove(_ process: Int) {
        endCalls(of: process)
        release(processes[process].workingDirectory)
        processes[process].isAlive = false
    }

    private mutating func endCalls(of process: Int) {
        closeAll(of: process)
        watches.removeAll { $0.process == process }
        signalObservers.removeAll { $0.process == process }
        // A call of the process that waits for a lock finds its descriptor closed.
        for waiter in lockWaiters { waiter.signal() }
        lockWaiters = []
    }

    /// Ends a process and starts another one of the same user in its slot.
    mutating func restart(_ process: Int) {
        endCalls(of: process)
        let directory = processes[process].workingDirectory
        processes[process].workingDirectory = Self.root
        hold(Self.root)
        release(directory)
    }

    mutating func changeDirectory(_ path: POSIXPath) throws(Errno) {
        let index = try resolve(path, at: .workingDirectory, followsLinks: true)
        guard isDirectory(index) else { throw .notDirectory }
        try require(.execute, to: index)
        let old = processes[current].workingDirectory
        processes[current].workingDirectory = index
        hold(index)
        release(old)
    }

    mutating func mount(at path: POSIXPath, _ device: InMemoryFileSystem.Device) throws(Errno) {
        let index = try resolve(path, at: .workingDirectory, followsLinks: true)
        guard isDirectory(index) else { throw .notDirectory }
        guard index != Self.root, !inodes[index].isMountPoint else { throw .resourceBusy }
        guard names[index].count == 0 else { throw .directoryNotEmpty }
        devices[inodes[index].device].usedInodes -= 1
        devices.append(device)
        devices[devices.count - 1].usedInodes = 1
        inodes[index].device = devices.count - 1
        inodes[index].isMountPoint = true
    }

    /// The index of the device that contains `path`.
    mutating func device(at path: POSIXPath) throws(Errno) -> Int {
        inodes[try resolve(path, at: .workingDirectory, followsLinks: true)].device
    }
}

extension InMemoryFileSystem {
    /// One process of the file system: its identity and open descriptors.
    struct Process: Sendable {
        var user: UserID
        var group: GroupID
        var groups: [GroupID]
        var umask: FilePermissions
        /// The index of its working directory in the table of inodes.
        var workingDirectory = 0
        var descriptors = DescriptorTable()
        /// Whether the slot in the table of processes is used.
        var isAlive = true

        var isSuperuser: Bool { user.rawValue == 0 }

        func isMember(of other: GroupID) -> Bool { other == group || groups.contains(other) }
    }

    /// The open file of each descriptor of a process.
    struct DescriptorTable: Sendable {
        /// Lower numbers belong to the standard streams, which every process has and the file system never assigns.
        static let firstNumber = 3

        private var openFiles: [Int32] = []
        private var lowestFree = 0
        private(set) var count = 0

        /// The index of the open file in the table of open files.
        subscript(_ descriptor: Descriptor) -> Int? {
            let index = Int(descriptor.rawValue) - Self.firstNumber
            guard openFiles.indices.contains(index), openFiles[index] >= 0 else { return nil }
            return Int(openFiles[index])
        }

        /// All descriptors, in ascending order.
        var all: [Descriptor] {
            openFiles.indices.filter { openFiles[$0] >= 0 }
                .map { Descriptor(rawValue: Int32($0 + Self.firstNumber)) }
        }

        /// Assigns the lowest free number.
        mutating func insert(_ openFile: Int) -> Descriptor {
            let index = lowestFree
            if index == openFiles.count {
                openFiles.append(Int32(openFile))
            } else {
                openFiles[index] = Int32(openFile)
            }
            count += 1
            repeat { lowestFree += 1 } while lowestFree < openFiles.count && openFiles[lowestFree] >= 0
            return Descriptor(rawValue: Int32(index + Self.firstNumber))
        }

        /// Frees a number and returns its open file.
        mutating func remove(_ descriptor: Descriptor) -> Int? {
            guard let openFile = self[descriptor] else { return nil }
            let index = Int(descriptor.rawValue) - Self.firstNumber
            openFiles[index] = -1
            lowestFree = min(lowestFree, index)
            count -= 1
            return openFile
        }
    }
}

extension InMemoryFileSystem {
    /// An open file description, which duplicated descriptors share.
    struct OpenFile: Sendable {
        /// The index of the inode in the table of inodes.
        var inode: Int
        var offset: Int64 = 0
        var isReadable: Bool
        var isWritable: Bool
        var appends: Bool
        var lock = LockMode.unlocked
        /// The number of descriptors that refer to it; 0 for a free slot in the table.
        var descriptorCount = 1
    }

    /// The open files of all processes; slots of closed ones are reused.
    struct OpenFileTable: Sendable {
        private var files: [OpenFile] = []
        private var free: [Int32] = []

        subscript(_ index: Int) -> OpenFile {
            get { files[index] }
            _modify { yield &files[index] }
        }

        mutating func insert(_ file: OpenFile) -> Int {
            guard let index = free.popLast() else {
                files.append(file)
                return files.count - 1
            }
            files[Int(index)] = file
            return Int(index)
        }

        /// Whether any open file matches.
        func contains(where matches: (OpenFile) -> Bool) -> Bool {
            files.contains { $0.descriptorCount > 0 && matches($0) }
        }

        mutating func remove(_ index: Int) {
            free.append(Int32(index))
        }
    }
}

extension InMemoryFileSystem.State {
    /// The result of a lock request.
    enum LockAnswer: Sendable {
        case done
        /// Another open file holds a conflicting lock; ask again once this is signalled.
        case wait(DispatchSemaphore)
    }

    /// Takes, changes or releases the lock of an open file.
    ///
    /// A change is a release and a request, as on Linux: if the request fails, the old lock is lost.
    mutating func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(Errno) -> LockAnswer {
        let file = try openFile(descriptor)
        guard openFiles[file].lock != mode else { return .done }
        unlock(file)
        let index = openFiles[file].inode
        switch mode {
        case .unlocked:
            return .done
        case .shared where inodes[index].lockCount >= 0:
            inodes[index].lockCount += 1
        case .exclusive where inodes[index].lockCount == 0:
            inodes[index].lockCount = -1
        case .shared, .exclusive:
            guard waiting else { throw .resourceTemporarilyUnavailable }
            let semaphore = DispatchSemaphore(value: 0)
            lockWaiters.append(semaphore)
            return .wait(semaphore)
        }
        openFiles[file].lock = mode
        return .done
    }

    /// Releases the lock of an open file, if it has one.
    mutating func unlock(_ file: Int) {
        let index = openFiles[file].inode
        switch openFiles[file].lock {
        case .unlocked: return
        case .shared: inodes[index].lockCount -= 1
        case .exclusive: inodes[index].lockCount = 0
        }
        openFiles[file].lock = .unlocked
        for waiter in lockWaiters { waiter.signal() }
        lockWaiters = []
    }
}
