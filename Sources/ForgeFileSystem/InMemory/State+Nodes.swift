import SystemPackage

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
