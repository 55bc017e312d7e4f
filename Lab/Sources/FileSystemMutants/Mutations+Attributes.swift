import ForgeFileSystem
import SystemPackage

extension Mutation {
    static let attributes: [Mutation] = [
        seeing("a directory has two links whatever it contains") {
            if $0.type == .directory, $0.linkCount > 2 { $0.linkCount = 2 }
        },
        seeing("a file has one link however many names it has") { if $0.type == .regular { $0.linkCount = 1 } },
        seeing("a file without a name still has a link") {
            if $0.type == .regular, $0.linkCount == 0 { $0.linkCount = 1 }
        },
        seeing("a removed directory still has links") {
            if $0.type == .directory, $0.linkCount == 0 { $0.linkCount = 2 }
        },
        seeing("a symbolic link has no size") { if $0.type == .symbolicLink { $0.sizeInBytes = 0 } },
        seeing("every file has the same inode number") { $0.inode = 7 },
        seeing("every device has the same number") { $0.device = 1 },
        seeing("the set-user-id bit is not shown") { $0.permissions.remove(.setUserID) },
        seeing("a FIFO is a file") { if $0.type == .fifo { $0.type = .regular } },
        Mutation("a status always follows links") {
            $0.status = { (tree, file) throws(FileSystemError) in try tree.base.status(of: file.following(true)) }
        },
        Mutation("a status never follows links") {
            $0.status = { (tree, file) throws(FileSystemError) in try tree.base.status(of: file.following(false)) }
        },
        Mutation("a missing file has an empty status") {
            $0.status = { (tree, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.status(of: file)
                } catch  where error.errno == .noSuchFileOrDirectory {
                    return try tree.base.status("/")
                }
            }
        },
        Mutation("setting the mode of a link is refused") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                try tree.base.setPermissions(permissions, of: file.following(false))
            }
        },
        Mutation("setting the mode applies the umask") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                try tree.base.setPermissions(
                    permissions.subtracting([.groupReadWriteExecute, .otherReadWriteExecute]), of: file)
            }
        },
        Mutation("there is no sticky bit") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                try tree.base.setPermissions(permissions.subtracting(.saveText), of: file)
            }
        },
        Mutation("a change of owner keeps the set-user-id bit") {
            $0.setOwner = { (tree, owner, group, file) throws(FileSystemError) in
                let permissions = try tree.base.status(of: file).permissions
                try tree.base.setOwner(owner, group: group, of: file)
                try tree.base.setPermissions(permissions, of: file)
            }
        },
        Mutation("an omitted owner is the superuser") {
            $0.setOwner = { (tree, owner, group, file) throws(FileSystemError) in
                try tree.base.setOwner(owner ?? UserID(0), group: group, of: file)
            }
        },
        Mutation("the group is never changed") {
            $0.setOwner = { (tree, owner, _, file) throws(FileSystemError) in
                try tree.base.setOwner(owner, group: nil, of: file)
            }
        },
        Mutation("the umask does not apply to a new directory") {
            $0.createDirectory = { (tree, path, directory, permissions) throws(FileSystemError) in
                try tree.base.createDirectory(path, at: directory, permissions: permissions)
                try tree.base.setPermissions(permissions, of: .path(path, at: directory))
            }
        },
        Mutation("a FIFO is created as a file") {
            $0.createNode = { (tree, path, directory, _, permissions) throws(FileSystemError) in
                try tree.base.createNode(
                    path, at: directory, type: .regular, permissions: permissions, deviceNumber: 0)
            }
        },
        Mutation("creating a special file replaces an existing file") {
            $0.createNode = { (tree, path, directory, type, permissions) throws(FileSystemError) in
                try tree.clear(path, directory)
                try tree.base.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: 0)
            }
        },
    ]

    private static func seeing(
        _ description: String, _ change: @escaping @Sendable (inout FileStatus) -> Void
    ) -> Mutation {
        Mutation(description) {
            $0.status = { (tree, file) throws(FileSystemError) in
                var status = try tree.base.status(of: file)
                change(&status)
                return status
            }
        }
    }
}
