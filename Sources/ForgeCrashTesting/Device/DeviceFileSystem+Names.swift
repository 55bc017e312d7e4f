public import ForgeFileSystem
import SystemPackage

/// Names are not content: they can be listed and changed while the device is locked.
extension DeviceFileSystem {
    public func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try live(.createSymbolicLink, path).createSymbolicLink(path, at: directory, to: target)
    }

    public func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try live(.readSymbolicLink, path).readSymbolicLink(path, at: directory)
    }

    public func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try live(.link, path).link(path, at: directory, to: newPath, at: newDirectory)
    }

    public func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try live(.rename, path).rename(path, at: directory, to: newPath, at: newDirectory, mode)
    }

    public func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try live(.unlink, path).unlink(path, at: directory)
    }

    public func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try live(.removeDirectory, path).removeDirectory(path, at: directory)
    }

    public func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try live(.list).entries(of: descriptor)
    }
}
