import SystemPackage

/// The devices that the tree lies on: one for the root, and one for each directory that something is mounted at.
extension InMemoryFileSystem {
    /// Makes an empty directory the root of a device of its own: names cannot be moved or linked across its border
    /// (`EXDEV`), and the directory cannot be removed or renamed (`EBUSY`).
    ///
    /// - Throws: `ENOTDIR`, `ENOTEMPTY`, `EBUSY` if it is a device's root already, or what the walk to it meets.
    public func mount(
        at path: POSIXPath, quota: Quota = Quota(), isReadOnly: Bool = false
    ) throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            try state.mount(at: path, Device(quota: quota, isReadOnly: isReadOnly))
        }
    }

    /// Changes the limits of the device that holds `path`. What is stored stays, even if it is more than the limit.
    public func setQuota(_ quota: Quota, at path: POSIXPath = "/") throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = try state.device(at: path)
            state.devices[device].quota = quota
        }
    }

    /// Makes the device that holds `path` refuse every change with `EROFS`, through open descriptors too, or take
    /// changes again.
    public func setReadOnly(_ isReadOnly: Bool, at path: POSIXPath = "/") throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = try state.device(at: path)
            state.devices[device].isReadOnly = isReadOnly
        }
    }

    /// What the device that holds `path` has given out.
    public func usage(at path: POSIXPath = "/") throws(FileSystemError) -> Usage {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = state.devices[try state.device(at: path)]
            return Usage(sizeInBytes: device.usedBlocks * FileContent.blockSize, inodeCount: device.usedInodes)
        }
    }
}
