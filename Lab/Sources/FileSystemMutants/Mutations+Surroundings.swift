import ForgeFileSystem
import SystemPackage

extension Mutation {
    /// Rules that concern other users, other devices, full devices and read-only devices.
    static let surroundings: [Mutation] = [
        Mutation("a read-only device permits changes of attributes") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setPermissions(permissions, of: file)
                } catch  where error.errno == .readOnlyFileSystem {
                    return
                }
            }
        },
        Mutation("a read-only device permits changes of times") {
            $0.setTimes = { (tree, accessed, modified, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setTimes(accessed: accessed, modified: modified, of: file)
                } catch  where error.errno == .readOnlyFileSystem {
                    return
                }
            }
        },
        Mutation("a read-only device refuses every open that may create") {
            $0.open = { (tree, call) throws(FileSystemError) in
                if call.options.contains(.create) {
                    do throws(FileSystemError) {
                        try tree.base.setPermissions(
                            try tree.base.status(of: .path("/")).permissions, of: .path("/"))
                    } catch  where error.errno == .readOnlyFileSystem {
                        throw FileSystemError(.open, .readOnlyFileSystem, path: call.path)
                    } catch _ {}
                }
                return try call(on: tree)
            }
        },
        Mutation("a full device refuses to overwrite existing bytes") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                if offset == 0, try tree.base.usage().sizeInBytes > 90_000 {
                    throw FileSystemError(.write, .noSpace)
                }
                return try tree.base.write(descriptor, from: bytes, at: offset)
            }
        },
        Mutation("a file that moves to another device is copied") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try call.rename(on: tree)
                } catch  where error.errno == .improperLink {
                    let content = try tree.base.readFile(call.path, at: call.directory)
                    let copy = try tree.base.open(
                        call.newPath, at: call.newDirectory, .writeOnly, options: [.create])
                    try tree.base.writeBytes(content, to: copy)
                    try tree.base.close(copy)
                    try tree.base.unlink(call.path, at: call.directory)
                }
            }
        },
        Mutation("a user may change the mode of another user's file") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setPermissions(permissions, of: file)
                } catch  where error.errno == .notPermitted {
                    return
                }
            }
        },
        Mutation("a forbidden call reports a missing file") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .permissionDenied {
                    throw FileSystemError(.open, .noSuchFileOrDirectory, path: call.path)
                }
            }
        },
        Mutation("a write keeps the set-user-id bit") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let before = try tree.base.status(of: .descriptor(descriptor)).permissions
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                let file = FileReference.descriptor(descriptor)
                if try tree.base.status(of: file).permissions != before {
                    try tree.base.setPermissions(before, of: file)
                }
                return count
            }
        },
        Mutation("a new file has the creator's group even in a set-group-id directory") {
            $0.open = { (tree, call) throws(FileSystemError) in
                let isNew = tree.type(call.path, call.directory, follows: true) == nil
                let descriptor = try call(on: tree)
                let status = try tree.base.status(of: .descriptor(descriptor))
                if isNew, status.owner.rawValue == 1234 {
                    try tree.base.setOwner(nil, group: GroupID(2345), of: .descriptor(descriptor))
                }
                return descriptor
            }
        },
    ]
}
