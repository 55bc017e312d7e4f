public import SystemPackage

extension InMemoryFileSystem {
    public func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try perform(.createDirectory, path) { (state) throws(Errno) in
            try state.createDirectory(path, at: directory, permissions)
        }
    }

    public func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        try perform(.createNode, path) { (state) throws(Errno) in
            try state.createNode(path, at: directory, type, permissions, deviceNumber)
        }
    }

    public func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try perform(.createSymbolicLink, path, to: target) { (state) throws(Errno) in
            try state.createSymbolicLink(path, at: directory, to: target)
        }
    }

    public func readSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> POSIXPath {
        try perform(.readSymbolicLink, path) { (state) throws(Errno) in
            try state.readSymbolicLink(path, at: directory)
        }
    }

    public func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try perform(.link, path, to: newPath) { (state) throws(Errno) in
            try state.link(path, at: directory, to: newPath, at: newDirectory)
        }
    }

    public func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try perform(.rename, path, to: newPath) { (state) throws(Errno) in
            try state.rename(path, at: directory, to: newPath, at: newDirectory, mode)
        }
    }

    public func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try perform(.unlink, path) { (state) throws(Errno) in try state.unlink(path, at: directory) }
    }

    public func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try perform(.removeDirectory, path) { (state) throws(Errno) in
            try state.removeDirectory(path, at: directory)
        }
    }

    public func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try perform(.list) { (state) throws(Errno) in try state.entries(of: descriptor) }
    }
}
