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
        Mutation("a change of owner clears the set-group-id bit of a directory") {
            $0.setOwner = { (tree, owner, group, file) throws(FileSystemError) in
                try tree.base.setOwner(owner, group: group, of: file)
                let status = try tree.base.status(of: file)
                if status.type == .directory {
                    try tree.base.setPermissions(status.permissions.subtracting(.setGroupID), of: file)
                }
            }
        },
        Mutation("setting the owner always follows links") {
            $0.setOwner = { (tree, owner, group, file) throws(FileSystemError) in
                try tree.base.setOwner(owner, group: group, of: file.following(true))
            }
        },
        Mutation("setting the mode always follows links") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                try tree.base.setPermissions(permissions, of: file.following(true))
            }
        },
        seeing("a symbolic link was last written long ago") {
            if $0.type == .symbolicLink { $0.modified = FileTime(seconds: 0) }
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

extension Mutation {
    static let extendedAttributes: [Mutation] = [
        Mutation("no extended attribute is listed") {
            $0.extendedAttributeNames = { (_, _) throws(FileSystemError) in [] }
        },
        Mutation("at most ten extended attributes are listed") {
            $0.extendedAttributeNames = { (tree, file) throws(FileSystemError) in
                Array(try tree.base.extendedAttributeNames(of: file).prefix(10))
            }
        },
        Mutation("a missing extended attribute is empty") {
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                try tree.base.extendedAttribute(name, of: file) ?? []
            }
        },
        Mutation("an empty extended attribute is missing") {
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                let value = try tree.base.extendedAttribute(name, of: file)
                return value?.isEmpty == true ? nil : value
            }
        },
        Mutation("a long value of an extended attribute is cut off") {
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                try tree.base.extendedAttribute(name, of: file).map { Array($0.prefix(256)) }
            }
        },
        Mutation("an extended attribute is not replaced") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                guard try tree.base.extendedAttribute(name, of: file) == nil else { return }
                try tree.base.setExtendedAttribute(name, to: value, of: file)
            }
        },
        Mutation("names of extended attributes have no case") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                try tree.base.setExtendedAttribute(name.lowercased(), to: value, of: file)
            }
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                try tree.base.extendedAttribute(name.lowercased(), of: file)
            }
        },
        Mutation("an extended attribute that is too long is cut off") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                try tree.base.setExtendedAttribute(name, to: Array(value.prefix(65_536)), of: file)
            }
        },
        Mutation("an extended attribute that does not fit is dropped silently") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setExtendedAttribute(name, to: value, of: file)
                } catch  where error.errno == .noSpace {}
            }
        },
        Mutation("a change of an extended attribute counts as one of the content") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                try tree.base.setExtendedAttribute(name, to: value, of: file)
                let status = try tree.base.status(of: .descriptor(file))
                try tree.base.setTimes(accessed: nil, modified: status.changed, of: .descriptor(file))
            }
        },
        Mutation("an extended attribute is read without permission") {
            $0.extendedAttribute = { (tree, name, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.extendedAttribute(name, of: file)
                } catch  where error.errno == .permissionDenied {
                    return nil
                }
            }
        },
        Mutation("an extended attribute is set without permission") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setExtendedAttribute(name, to: value, of: file)
                } catch  where error.errno == .permissionDenied {}
            }
        },
        Mutation("an extended attribute of another user's sticky directory is set") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setExtendedAttribute(name, to: value, of: file)
                } catch  where error.errno == .notPermitted {
                    guard try tree.base.status(of: .descriptor(file)).type == .directory else { throw error }
                }
            }
        },
        Mutation("an extended attribute needs a file opened for writing") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                if let call = tree.call(of: file), call.mode == .readOnly, !call.options.contains(.directory) {
                    throw FileSystemError(.setExtendedAttribute, .badFileDescriptor)
                }
                try tree.base.setExtendedAttribute(name, to: value, of: file)
            }
        },
    ]
}
