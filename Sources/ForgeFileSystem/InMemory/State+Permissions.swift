import SystemPackage

extension InMemoryFileSystem.State {
    /// What is wanted of a file, as the bits of one class in its mode.
    struct Access: OptionSet {
        let rawValue: UInt8
        static let execute = Access(rawValue: 1)
        static let write = Access(rawValue: 2)
        static let read = Access(rawValue: 4)
    }

    /// Whether the current process may do this.
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

    /// Whether a name may be added to a directory.
    @inline(__always) func mayCreate(in directory: Int) throws(Errno) {
        guard !isRemovedDirectory(directory) else { throw .noSuchFileOrDirectory }
        try require([.write, .execute], to: directory)
    }

    /// Whether what exists may be opened as if it were to be created: in a sticky directory that anyone may write to, a
    /// special file of a third party may not (`may_create_in_sticky` of Linux).
    func mayOpenForCreation(_ index: Int, in directory: Int) throws(Errno) {
        guard options.profile == .linux, !isRegular(index), inodes[index].kind != .fifo,
            inodes[directory].permissions.contains([.saveText, .otherWrite])
        else { return }
        let owner = inodes[index].owner
        guard owner == inodes[directory].owner || owner == processes[current].user else { throw .permissionDenied }
    }

    /// Whether the name of `victim` may be taken out of a directory, or replaced by a directory or something else.
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

    /// The permissions that are left when an unprivileged process changes the content of a file.
    func permissionsAfterWrite(_ index: Int) -> FilePermissions {
        var permissions = inodes[index].permissions
        guard !isSuperuser, isRegular(index) else { return permissions }
        permissions.remove(.setUserID)
        if dropsSetGroupID(index) { permissions.remove(.setGroupID) }
        return permissions
    }

    /// Whether a change of content or owner takes the set-group-id bit away: where it means execution, or the group is
    /// not one's own.
    func dropsSetGroupID(_ index: Int) -> Bool {
        inodes[index].permissions.contains(.groupExecute)
            || !isSuperuser && !processes[current].isMember(of: inodes[index].group)
    }
}

extension InMemoryFileSystem.Process {
    /// Whether an unprivileged process may do this (`path_resolution(7)`): the first class that fits decides alone.
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
