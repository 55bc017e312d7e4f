public import SystemPackage

extension InMemoryFileSystem {
    public func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try perform(.status, file.path) { (state) throws(Errno) in try state.status(of: file) }
    }

    public func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try perform(.setPermissions, file.path) { (state) throws(Errno) in
            try state.setPermissions(permissions, of: file)
        }
    }

    public func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try perform(.setOwner, file.path) { (state) throws(Errno) in
            try state.setOwner(owner, group: group, of: file)
        }
    }

    public func setTimes(
        accessed: FileTime?, modified: FileTime?, of file: FileReference
    ) throws(FileSystemError) {
        try perform(.setTimes, file.path) { (state) throws(Errno) in
            try state.setTimes(accessed: accessed, modified: modified, of: file)
        }
    }
}

extension FileReference {
    /// The path, if the reference has one.
    var path: POSIXPath? {
        guard case .path(let path, _, _) = self else { return nil }
        return path
    }
}
