import SystemPackage

/// The devices of the tree: one for the root, and one for each mount point.
extension InMemoryFileSystem {
    /// Makes an empty directory the root of a new device: names cannot be moved or linked across its border (`EXDEV`),
    /// and the directory cannot be removed or renamed (`EBUSY`).
    ///
    /// - Throws: `ENOTDIR`, `ENOTEMPTY`, `EBUSY` if it is a device's root already, or an error of path resolution.
    public func mount(
        at path: POSIXPath, quota: Quota = Quota(), isReadOnly: Bool = false
    ) throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            try state.mount(at: path, Device(quota: quota, isReadOnly: isReadOnly))
        }
    }

    /// Changes the limits of the device that contains `path`. Stored data is kept, even above the limit.
    public func setQuota(_ quota: Quota, at path: POSIXPath = "/") throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = try state.device(at: path)
            state.devices[device].quota = quota
        }
    }

    /// Makes the device that contains `path` refuse every change with `EROFS`, also through open descriptors, or
    /// permits changes again.
    public func setReadOnly(_ isReadOnly: Bool, at path: POSIXPath = "/") throws(FileSystemError) {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = try state.device(at: path)
            state.devices[device].isReadOnly = isReadOnly
        }
    }

    /// The used space and inodes of the device that contains `path`.
    public func usage(at path: POSIXPath = "/") throws(FileSystemError) -> Usage {
        try perform(.resolve, path) { (state) throws(Errno) in
            let device = state.devices[try state.device(at: path)]
            return Usage(sizeInBytes: device.usedBlocks * FileContent.blockSize, inodeCount: device.usedInodes)
        }
    }
}
