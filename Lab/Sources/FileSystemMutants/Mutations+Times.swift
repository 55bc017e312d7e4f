import ForgeFileSystem
import Synchronization
import SystemPackage

extension Mutation {
    static let times: [Mutation] = [
        Mutation("a creation does not change the directory's time") {
            $0.open = { (tree, call) throws(FileSystemError) in
                try tree.keepingTimesOfParent(call.path, call.directory) { () throws(FileSystemError) in
                    try call(on: tree)
                }
            }
        },
        Mutation("a removal does not change the directory's time") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                try tree.keepingTimesOfParent(path, directory) { () throws(FileSystemError) in
                    try tree.base.unlink(path, at: directory)
                }
            }
        },
        Mutation("a new directory does not change its parent's time") {
            $0.createDirectory = { (tree, path, directory, permissions) throws(FileSystemError) in
                try tree.keepingTimesOfParent(path, directory) { () throws(FileSystemError) in
                    try tree.base.createDirectory(path, at: directory, permissions: permissions)
                }
            }
        },
        Mutation("a rename does not change the time of the target directory") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                try tree.keepingTimesOfParent(call.newPath, call.newDirectory) { () throws(FileSystemError) in
                    try call.rename(on: tree)
                }
            }
        },
        Mutation("a write to a file changes its directory's time") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                if let call = tree.call(of: descriptor), !call.path.splitLast().parent.isEmpty {
                    let recent = try tree.base.status(of: .descriptor(descriptor)).modified
                    let parent = FileReference.path(call.path.splitLast().parent, at: call.directory)
                    tree.setModified(recent, of: parent)
                }
                return count
            }
        },
        Mutation("a rename changes the time of modification") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                try call.rename(on: tree)
                let file = FileReference.path(call.newPath, at: call.newDirectory, followsSymbolicLinks: false)
                tree.setModified(try tree.base.status(of: file).changed, of: file)
            }
        },
        Mutation("a change of mode changes the time of modification") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                try tree.base.setPermissions(permissions, of: file)
                tree.setModified(try tree.base.status(of: file).changed, of: file)
            }
        },
        frozen("a rename does not move the time of change") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                try tree.freezeChange(
                    of: .path(call.path, at: call.directory, followsSymbolicLinks: false))
                try call.rename(on: tree)
            }
        },
        Mutation("an exchange does not change the time of its first directory") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                guard call.mode == .exchanging else { return try call.rename(on: tree) }
                try tree.keepingTimesOfParent(call.path, call.directory) { () throws(FileSystemError) in
                    try call.rename(on: tree)
                }
            }
        },
        frozen("a change of mode does not move the time of change") {
            $0.setPermissions = { (tree, permissions, file) throws(FileSystemError) in
                try tree.freezeChange(of: file)
                try tree.base.setPermissions(permissions, of: file)
            }
        },
        frozen("a new name does not move the time of change") {
            $0.link = { (tree, call) throws(FileSystemError) in
                try tree.freezeChange(
                    of: .path(call.path, at: call.directory, followsSymbolicLinks: false))
                try call.link(on: tree)
            }
        },
        frozen("a write does not move the time of change") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                try tree.freezeChange(of: .descriptor(descriptor))
                return try tree.base.write(descriptor, from: bytes, at: offset)
            }
        },
        Mutation("a write does not change the time of modification") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                var count = 0
                try tree.keepingTimes(of: .descriptor(descriptor)) { () throws(FileSystemError) in
                    count = try tree.base.write(descriptor, from: bytes, at: offset)
                }
                return count
            }
        },
        Mutation("an empty write changes the time of modification") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                if bytes.isEmpty {
                    tree.setModified(FileTime(seconds: 2_000_000), of: .descriptor(descriptor))
                }
                return count
            }
        },
        Mutation("a change of size does not change the time of modification") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                try tree.keepingTimes(of: file) { () throws(FileSystemError) in
                    try tree.base.truncate(file, to: size)
                }
            }
        },
        Mutation("a read changes the time of modification") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                let count = try tree.base.read(descriptor, into: buffer, at: offset)
                tree.setModified(FileTime(seconds: 2_000_000), of: .descriptor(descriptor))
                return count
            }
        },
        Mutation("a read does not change the time of access") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                let before = try tree.base.status(of: .descriptor(descriptor)).accessed
                let count = try tree.base.read(descriptor, into: buffer, at: offset)
                do throws(FileSystemError) {
                    try tree.base.setTimes(accessed: before, modified: nil, of: .descriptor(descriptor))
                } catch _ {}
                return count
            }
        },
        Mutation("an invalid time is left out") {
            $0.setTimes = { (tree, accessed, modified, file) throws(FileSystemError) in
                let isValid: (FileTime) -> Bool = { $0.nanoseconds < 0x3fff_fffe }
                try tree.base.setTimes(
                    accessed: accessed.flatMap { isValid($0) ? $0 : nil },
                    modified: modified.flatMap { isValid($0) ? $0 : nil }, of: file)
            }
        },
        Mutation("times have whole seconds") {
            $0.setTimes = { (tree, accessed, modified, file) throws(FileSystemError) in
                try tree.base.setTimes(
                    accessed: accessed.map { FileTime(seconds: $0.seconds) },
                    modified: modified.map { FileTime(seconds: $0.seconds) }, of: file)
            }
        },
        Mutation("there is no time before 1970") {
            $0.setTimes = { (tree, accessed, modified, file) throws(FileSystemError) in
                let start = FileTime(seconds: 0)
                try tree.base.setTimes(
                    accessed: accessed.map { max($0, start) }, modified: modified.map { max($0, start) }, of: file)
            }
        },
        Mutation("there is no time after 2038") {
            $0.setTimes = { (tree, accessed, modified, file) throws(FileSystemError) in
                let end = FileTime(seconds: 0x7FFF_FFFF)
                try tree.base.setTimes(
                    accessed: accessed.map { min($0, end) }, modified: modified.map { min($0, end) }, of: file)
            }
        },
        Mutation("an omitted time is set as well") {
            $0.setTimes = { (tree, accessed, modified, file) throws(FileSystemError) in
                try tree.base.setTimes(
                    accessed: accessed ?? modified, modified: modified ?? accessed, of: file)
            }
        },
        Mutation("setting times always follows links") {
            $0.setTimes = { (tree, accessed, modified, file) throws(FileSystemError) in
                try tree.base.setTimes(accessed: accessed, modified: modified, of: file.following(true))
            }
        },
    ]

    /// A mutation that freezes change times in every later status.
    private static func frozen(_ description: String, _ breaking: (inout Mutation) -> Void) -> Mutation {
        Mutation(description) {
            breaking(&$0)
            $0.status = { (tree, file) throws(FileSystemError) in
                var status = try tree.base.status(of: file)
                if let time = tree.notes.frozen.withLock({ $0[status.inode] }) { status.changed = time }
                return status
            }
        }
    }
}

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
        Mutation("a read-only device permits changes of extended attributes") {
            $0.setExtendedAttribute = { (tree, name, value, file) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.setExtendedAttribute(name, to: value, of: file)
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
        Mutation("what is stored into a mapping takes no space of the device") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                var quota = try tree.base.capacity(of: .path("/")).quota
                guard let size = quota.sizeInBytes, count < 1 << 20 else { return mapping }
                quota.sizeInBytes = size + Int64(count)
                try tree.base.setQuota(quota)
                return mapping
            }
        },
        Mutation("a removed directory keeps its inode") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                try tree.base.removeDirectory(path, at: directory)
                var quota = try tree.base.capacity(of: .path("/")).quota
                guard let count = quota.inodeCount else { return }
                quota.inodeCount = count - 1
                try tree.base.setQuota(quota)
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
        Mutation("a user may move files out of another user's directory") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try call.rename(on: tree)
                } catch  where error.errno == .permissionDenied && tree.type(call.path, call.directory) == .regular {
                    let root = tree.base.process(user: UserID(0))
                    try root.rename(
                        call.path, at: call.directory, to: call.newPath, at: call.newDirectory, call.mode)
                }
            }
        },
        Mutation("a user may only make links to own files") {
            $0.link = { (tree, call) throws(FileSystemError) in
                let isOwn = tree.status(call.path, call.directory)?.owner == tree.effectiveUser
                guard isOwn || tree.effectiveUser == UserID(0) else {
                    throw FileSystemError(.link, .notPermitted, path: call.path, destination: call.newPath)
                }
                try call.link(on: tree)
            }
        },
        Mutation("a user may empty a file that they may only read") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .permissionDenied && call.options == .truncate {
                    try tree.base.process(user: UserID(0)).truncate(.path(call.path, at: call.directory), to: 0)
                    return try tree.base.open(call.path, at: call.directory, call.mode)
                }
            }
        },
        Mutation("an exchange needs no permission to write to a directory") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try call.rename(on: tree)
                } catch
                    where error.errno == .permissionDenied && call.mode == .exchanging
                    && tree.type(call.path, call.directory) == .directory
                {}
            }
        },
        Mutation("in a sticky directory, everyone removes only their own files") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                let parent = tree.status(path.splitLast().parent, directory, follows: true)
                if let owner = tree.status(path, directory)?.owner, let parent,
                    parent.permissions.contains(.saveText), parent.owner == tree.effectiveUser,
                    owner != tree.effectiveUser, tree.effectiveUser != UserID(0)
                {
                    throw FileSystemError(.unlink, .notPermitted, path: path)
                }
                try tree.base.unlink(path, at: directory)
            }
        },
        Mutation("a new file has the set-group-id bit of a group of others") {
            $0.open = { (tree, call) throws(FileSystemError) in
                let descriptor = try call(on: tree)
                if call.options.contains(.create), call.permissions.contains(.setGroupID) {
                    try tree.base.process(user: UserID(0)).setPermissions(
                        call.permissions, of: .path(call.path, at: call.directory))
                }
                return descriptor
            }
        },
        Mutation("a mount point is removed") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.removeDirectory(path, at: directory)
                } catch  where error.errno == .resourceBusy && path != "/" {}
            }
        },
        Mutation("a mount point is replaced") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try call.rename(on: tree)
                } catch  where error.errno == .resourceBusy && call.newPath.splitLast().name == "other" {}
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
