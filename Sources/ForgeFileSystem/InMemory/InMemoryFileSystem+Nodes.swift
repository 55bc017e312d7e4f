import Synchronization
package import SystemPackage

/// Access to the tree by nodes, for callers that resolve paths themselves, like a kernel.
///
/// A node is held by a descriptor that permits neither reading nor writing (`O_PATH` of `open(2)`): it can be the
/// starting directory of a path, and the file of an attribute call. All calls here make the same checks as the calls
/// that take a path.
extension InMemoryFileSystem {
    /// The status of a node (`stat(2)`), device number included.
    package struct NodeStatus: Sendable {
        package var status: FileStatus
        /// For a device node: the number given at its creation.
        package var deviceNumber: UInt64
    }

    /// A change of a time stamp (`utimensat(2)`).
    package enum TimeChange: Hashable, Sendable {
        case unchanged
        case now
        case to(FileTime)
    }

    /// The limits and usage of a device, in blocks of 4096 bytes.
    package struct Capacity: Sendable {
        package var quota: Quota
        package var usage: Usage
    }

    /// Changes the identity of this process, as `setfsuid(2)` does; its descriptors are kept.
    package func assumeIdentity(user: UserID, group: GroupID, groups: [GroupID]) {
        tree.state.withLock { state in
            state.processes[process].user = user
            state.processes[process].group = group
            state.processes[process].groups = groups
        }
    }

    /// Sets the working directory by inode number.
    package func changeDirectory(toInode number: UInt64) throws(FileSystemError) {
        try perform(.resolve) { (state) throws(Errno) in try state.changeDirectory(toInode: number) }
    }

    /// Opens a node for holding, regardless of its permissions.
    package func openNode(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = false
    ) throws(FileSystemError) -> Descriptor {
        try perform(.open, path) { (state) throws(Errno) in
            state.openNode(try state.resolve(path, at: directory, followsLinks: followsSymbolicLinks))
        }
    }

    /// Opens the node of a descriptor for holding.
    package func openNode(of descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try perform(.duplicate) { (state) throws(Errno) in
            state.openNode(state.openFiles[try state.openFile(descriptor)].inode)
        }
    }

    /// Opens a node for reading or writing; of the options, only `append` and `truncate` apply.
    package func open(
        node descriptor: Descriptor, _ mode: FileDescriptor.AccessMode, options: FileDescriptor.OpenOptions
    ) throws(FileSystemError) -> Descriptor {
        try perform(.open) { (state) throws(Errno) in try state.open(node: descriptor, mode, options) }
    }

    /// The status of a node.
    package func nodeStatus(of file: FileReference) throws(FileSystemError) -> NodeStatus {
        try perform(.status, file.path) { (state) throws(Errno) in
            let index = try state.inode(of: file)
            return NodeStatus(
                status: try state.status(of: file), deviceNumber: state.inodes[index].deviceNumber)
        }
    }

    /// The target of a symbolic link.
    package func readSymbolicLink(node descriptor: Descriptor) throws(FileSystemError) -> POSIXPath {
        try perform(.readSymbolicLink) { (state) throws(Errno) in
            try state.readSymbolicLink(state.inode(of: .descriptor(descriptor)))
        }
    }

    /// Adds a hard link to a node.
    package func link(
        node descriptor: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try perform(.link, to: newPath) { (state) throws(Errno) in
            try state.link(state.inode(of: .descriptor(descriptor)), to: newPath, at: newDirectory)
        }
    }

    /// Truncates or extends a node's content, as `truncate(2)` does by a path.
    package func truncate(node descriptor: Descriptor, to sizeInBytes: Int64) throws(FileSystemError) {
        try perform(.truncate) { (state) throws(Errno) in
            try state.truncate(state.inode(of: .descriptor(descriptor)), to: sizeInBytes)
        }
    }

    /// Sets the access and modification times, each to a given time or to that of the call.
    ///
    /// Setting both to the current time requires write permission; everything else requires ownership.
    package func setTimes(
        accessed: TimeChange, modified: TimeChange, of file: FileReference
    ) throws(FileSystemError) {
        try perform(.setTimes, file.path) { (state) throws(Errno) in
            try state.setTimes(accessed: accessed, modified: modified, of: file)
        }
    }

    /// Whether this process may read (4), write (2) and execute or search (1) a node (`access(2)`).
    package func checkAccess(_ bits: UInt8, to file: FileReference) throws(FileSystemError) {
        try perform(.status, file.path) { (state) throws(Errno) in
            let index = try state.inode(of: file)
            if bits & 2 != 0, state.isRegular(index) || state.isDirectory(index) {
                try state.requireWritableDevice(index)
            }
            try state.require(State.Access(rawValue: bits & 7), to: index)
        }
    }

    /// Sets whether writes through a descriptor append (`O_APPEND` of `fcntl(2)`).
    package func setAppends(_ appends: Bool, of descriptor: Descriptor) throws(FileSystemError) {
        try perform(.write) { (state) throws(Errno) in
            state.openFiles[try state.openFile(descriptor)].appends = appends
        }
    }

    /// The limits and usage of the device that contains a node.
    package func capacity(of file: FileReference) throws(FileSystemError) -> Capacity {
        try perform(.status, file.path) { (state) throws(Errno) in
            let device = state.devices[state.inodes[try state.inode(of: file)].device]
            let used = Usage(sizeInBytes: device.usedBlocks * FileContent.blockSize, inodeCount: device.usedInodes)
            return Capacity(quota: device.quota, usage: used)
        }
    }
}

extension InMemoryFileSystem.State {
    /// Opens a descriptor that holds a node and permits neither reading nor writing.
    mutating func openNode(_ index: Int) -> Descriptor {
        hold(index)
        let file = openFiles.insert(OpenFile(inode: index, isReadable: false, isWritable: false, appends: false))
        return processes[current].descriptors.insert(file)
    }

    mutating func open(
        node descriptor: Descriptor, _ mode: FileDescriptor.AccessMode, _ flags: FileDescriptor.OpenOptions
    ) throws(Errno) -> Descriptor {
        let index = try inode(of: .descriptor(descriptor))
        try requireFreeDescriptor()
        try openExisting(index, mode, flags)
        return insertOpenFile(index, mode, flags)
    }

    mutating func setTimes(
        accessed: InMemoryFileSystem.TimeChange, modified: InMemoryFileSystem.TimeChange, of reference: FileReference
    ) throws(Errno) {
        guard accessed == .now, modified == .now else {
            let time = [accessed, modified].contains(.now) ? now() : nil
            try setTimes(
                accessed: accessed.time(now: time), modified: modified.time(now: time), of: reference)
            return
        }
        let index = try inode(of: reference)
        try requireWritableDevice(index)
        if !isOwner(of: index) { try require(.write, to: index) }
        let time = now()
        setAttributes(of: index) { inode in
            inode.accessed = time
            inode.modified = time
        }
    }

    /// Sets the working directory to the directory with this number, which must be open or have a name.
    mutating func changeDirectory(toInode number: UInt64) throws(Errno) {
        let found = inodes.indices.first { index in
            let inode = inodes[index]
            return inodeNumber(index) == number && inode.isDirectory && (inode.nameCount > 0 || inode.holderCount > 0)
        }
        guard let found else { throw .noSuchFileOrDirectory }
        let old = processes[current].workingDirectory
        processes[current].workingDirectory = found
        hold(found)
        release(old)
    }
}

extension InMemoryFileSystem.TimeChange {
    fileprivate func time(now: FileTime?) -> FileTime? {
        switch self {
        case .unchanged: nil
        case .now: now
        case .to(let time): time
        }
    }
}
