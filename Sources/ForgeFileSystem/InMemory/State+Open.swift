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
        try check(path)
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
        if truncates, isRegular(index) { try requireWritableDevice(index) }
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
        let permissions = permissionsAfterWrite(index)
        inodes[index].permissions = permissions
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
