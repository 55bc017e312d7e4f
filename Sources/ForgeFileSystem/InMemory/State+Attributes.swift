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
