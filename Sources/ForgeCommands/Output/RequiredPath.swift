import ArgumentParser
import ForgeStorage
import SystemPackage

/// Requires a non-empty path: Foundation treats an empty path as the current directory.
///
/// - Parameters:
///   - path: The argument; nil if it was not given.
///   - name: The kind of file at the path.
/// - Throws: `ValidationError`.
func requirePath(_ path: String?, of name: String) throws {
    // `UsageMessage` passes on messages with this prefix; they repeat no argument.
    guard path?.isEmpty != true else { throw ValidationError("Missing path: the path of the \(name) is empty") }
    guard path.map(StoreURL.isURL) != true else {
        throw ValidationError("Missing path: the \(name) must be on this machine; kv, file, copy and watch take URLs")
    }
}

/// Throws if an output would be written over a file of a store.
///
/// - Parameters:
///   - path: The file that is written or replaced; links on its path are followed.
///   - name: What was given as the output, in an error.
/// - Throws: ``CommandFailure`` with the status for wrong usage, or the error of looking at the directory.
func requireNoStoreFile(at path: POSIXPath, _ name: String) throws {
    let fileSystem = SystemFileSystem()
    let path = try fileSystem.followingFinalLinks(path)
    let (above, file) = path.splitLast()
    let parent: POSIXPath = above.isEmpty ? "." : above
    let role: FileRole
    do throws(FileSystemError) {
        let owner = try StoreEvidence(at: parent, on: fileSystem)
        role = try fileSystem.withDirectory(parent) { (directory) throws(FileSystemError) in
            // A name that only stores use is reserved, also while there is no such file.
            if owner.isRoot, file.isReservedName { return .marker }
            guard try fileSystem.exists(file, at: directory, followsSymbolicLinks: false) else {
                return try owner.role(of: file) { () throws(FileSystemError) in [] }
            }
            return try owner.role(of: file, at: directory, on: fileSystem)
        }
    } catch {
        guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
        return  // The write reports it.
    }
    guard role == .content else { throw CommandFailure("\(name) is a file of a store; choose another output", .usage) }
}
