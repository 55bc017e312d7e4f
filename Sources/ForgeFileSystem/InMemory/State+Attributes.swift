import SystemPackage

extension InMemoryFileSystem.State {
    mutating func status(of reference: FileReference) throws(Errno) -> FileStatus {
        let index = try inode(of: reference)
        let targetSize = isSymbolicLink(index) ? targets[index].map { Int64($0.count) } : nil
        return inodes[index].status(
            inode: inodeNumber(index), size: targetSize ?? contents[index].size,
            allocatedBlocks: contents[index].allocatedBlocks,
            entryCount: isDirectory(index) ? names[index].count : 0, options.profile)
    }

    mutating func setPermissions(_ permissions: FilePermissions, of reference: FileReference) throws(Errno) {
        let index = try inode(of: reference)
        try requireWritableDevice(index)
        if isSymbolicLink(index), options.profile == .linux { throw .notSupported }
        guard isOwner(of: index) else { throw .notPermitted }
        var permissions = permissions.intersection(FilePermissions(rawValue: 0o7777))
        if !isSuperuser, !processes[current].isMember(of: inodes[index].group) {
            permissions.remove(.setGroupID)
        }
        setAttributes(of: index) { $0.permissions = permissions }
    }

    mutating func setOwner(_ owner: UserID?, group: GroupID?, of reference: FileReference) throws(Errno) {
        let index = try inode(of: reference)
        try requireWritableDevice(index)
        var permissions = inodes[index].permissions
        if !isDirectory(index) {
            permissions.remove(.setUserID)
            if dropsSetGroupID(index) { permissions.remove(.setGroupID) }
        }
        if !isSuperuser {
            let owns = processes[current].user == inodes[index].owner
            if let owner { guard owns, owner == inodes[index].owner else { throw .notPermitted } }
            if let group {
                guard owns, group == inodes[index].group || processes[current].isMember(of: group) else {
                    throw .notPermitted
                }
            }
            guard owns || permissions == inodes[index].permissions else { throw .notPermitted }
        }
        setAttributes(of: index) { inode in
            inode.permissions = permissions
            if let owner { inode.owner = owner }
            if let group { inode.group = group }
        }
    }

    mutating func setTimes(
        accessed: FileTime?, modified: FileTime?, of reference: FileReference
    ) throws(Errno) {
        // Without changes, not even the path is resolved (`utimensat(2)`).
        guard accessed != nil || modified != nil else { return }
        let index = try inode(of: reference)
        for time in [accessed, modified] {
            guard let time else { continue }
            guard (0..<1_000_000_000).contains(time.nanoseconds) else { throw .invalidArgument }
        }
        try requireWritableDevice(index)
        guard isOwner(of: index) else { throw .notPermitted }
        setAttributes(of: index) { inode in
            if let accessed { inode.accessed = accessed }
            if let modified { inode.modified = modified }
        }
    }

    mutating func inode(of reference: FileReference) throws(Errno) -> Int {
        switch reference {
        case .descriptor(let descriptor): openFiles[try openFile(descriptor)].inode
        case .path(let path, let directory, let followsLinks):
            try resolve(path, at: directory, followsLinks: followsLinks)
        }
    }
}

extension InMemoryFileSystem.State {
    /// The requested access to a file, as the bits of one class in its mode.
    struct Access: OptionSet {
        let rawValue: UInt8
        static let execute = Access(rawValue: 1)
        static let write = Access(rawValue: 2)
        static let read = Access(rawValue: 4)
    }

    /// Whether the current process has this access.
    @inline(__always) func permits(_ access: Access, to index: Int) -> Bool {
        if isSuperuser {
            guard access.contains(.execute), !isDirectory(index) else { return true }
            return !inodes[index].permissions.isDisjoint(with: [.ownerExecute, .groupExecute, .otherExecute])
        }
        return processes[current].isPermitted(
            access, by: inodes[index].permissions, owner: inodes[index].owner, group: inodes[index].group)
    }

    @inline(__always) func require(_ access: Access, to index: Int) throws(Errno) {
        guard permits(access, to: index) else { throw .permissionDenied }
    }

    func isOwner(of index: Int) -> Bool {
        isSuperuser || processes[current].user == inodes[index].owner
    }

    @inline(__always) func isReadOnly(_ index: Int) -> Bool { devices[inodes[index].device].isReadOnly }

    @inline(__always) func requireWritableDevice(_ index: Int) throws(Errno) {
        guard !isReadOnly(index) else { throw .readOnlyFileSystem }
    }

    /// Requires permission to add a name to a directory. The name was looked up before, which refuses a directory that
    /// was removed.
    @inline(__always) func requirePermissionToCreate(in directory: Int) throws(Errno) {
        try require([.write, .execute], to: directory)
    }

    /// Requires permission to open an existing file with the create option: in a world-writable sticky directory, a
    /// special file of a third party may not be opened (`may_create_in_sticky` of Linux).
    func requirePermissionToOpenForCreation(_ index: Int, in directory: Int) throws(Errno) {
        guard options.profile == .linux, !isRegular(index), inodes[index].kind != .fifo,
            inodes[directory].permissions.contains([.saveText, .otherWrite])
        else { return }
        let owner = inodes[index].owner
        guard owner == inodes[directory].owner || owner == processes[current].user else { throw .permissionDenied }
    }

    /// Requires permission to remove the name of `victim` from a directory, or to replace it by a directory or another
    /// file.
    func mayRemove(_ victim: Int, from directory: Int, asDirectory: Bool) throws(Errno) {
        try require([.write, .execute], to: directory)
        if inodes[directory].permissions.contains(.saveText), !isOwner(of: victim), !isOwner(of: directory) {
            throw .notPermitted
        }
        if asDirectory {
            guard isDirectory(victim) else { throw .notDirectory }
        } else if isDirectory(victim) {
            throw options.profile == .darwin ? .notPermitted : .isDirectory
        }
    }

    /// `protected_hardlinks`: a user who does not own a file may link it only with read and write permission.
    func mayLink(_ index: Int) throws(Errno) {
        guard options.profile == .linux, !isOwner(of: index) else { return }
        let permissions = inodes[index].permissions
        let isPrivileged = permissions.contains(.setUserID) || permissions.contains([.setGroupID, .groupExecute])
        guard isRegular(index), !isPrivileged, permits([.read, .write], to: index) else { throw .notPermitted }
    }

    /// Clears the bits that a change of the content of a regular file by an unprivileged process clears.
    mutating func dropPrivilegeBits(_ index: Int) {
        guard !isSuperuser else { return }
        var permissions = inodes[index].permissions
        permissions.remove(.setUserID)
        if dropsSetGroupID(index) { permissions.remove(.setGroupID) }
        if permissions != inodes[index].permissions { setAttributes(of: index) { $0.permissions = permissions } }
    }

    /// Whether a change of content or owner clears the set-group-id bit: if the group may execute the file, or the
    /// process is not in the group.
    func dropsSetGroupID(_ index: Int) -> Bool {
        inodes[index].permissions.contains(.groupExecute)
            || !isSuperuser && !processes[current].isMember(of: inodes[index].group)
    }
}

extension InMemoryFileSystem.Process {
    /// Whether an unprivileged process has this access (`path_resolution(7)`): only the first matching class applies.
    fileprivate func isPermitted(
        _ access: InMemoryFileSystem.State.Access, by permissions: FilePermissions, owner: UserID, group: GroupID
    ) -> Bool {
        let shift: UInt32
        if user == owner {
            shift = 6
        } else if isMember(of: group) {
            shift = 3
        } else {
            shift = 0
        }
        let bits = UInt32(truncatingIfNeeded: permissions.rawValue)
        return InMemoryFileSystem.State.Access(rawValue: UInt8(bits >> shift & 7)).isSuperset(of: access)
    }
}
