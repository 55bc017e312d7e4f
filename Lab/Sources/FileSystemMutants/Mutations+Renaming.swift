import ForgeFileSystem
import Synchronization
import SystemPackage

extension Mutation {
    static let renaming: [Mutation] = [
        replacing("a directory replaces a non-empty directory", .directory, over: .directory),
        replacing("a file replaces a directory", .regular, over: .directory),
        replacing("a directory replaces a file", .directory, over: .regular),
        Mutation("a directory does not replace an empty one") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                if call.mode == .replacing, tree.type(call.path, call.directory) == .directory,
                    tree.type(call.newPath, call.newDirectory) == .directory,
                    tree.status(call.path, call.directory)?.inode
                        != tree.status(call.newPath, call.newDirectory)?.inode,
                    call.path.splitLast().name != "."
                {
                    throw FileSystemError(.rename, .directoryNotEmpty, path: call.path)
                }
                try call.rename(on: tree)
            }
        },
        Mutation("a file cannot be replaced") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                if call.mode == .replacing, tree.type(call.path, call.directory) == .regular,
                    tree.type(call.newPath, call.newDirectory) == .regular, call.path != call.newPath
                {
                    throw FileSystemError(.rename, .fileExists, path: call.path)
                }
                try call.rename(on: tree)
            }
        },
        Mutation("renaming a directory into its own subtree does nothing") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try call.rename(on: tree)
                } catch  where error.errno == .invalidArgument && call.mode == .replacing && !call.path.containsNUL {
                    return
                }
            }
        },
        Mutation("renaming a file over another of its names removes one") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                let isSame =
                    tree.status(call.path, call.directory)?.inode
                    == tree.status(call.newPath, call.newDirectory)?.inode
                if isSame, call.mode == .replacing, call.path != call.newPath,
                    tree.type(call.path, call.directory) == .regular
                {
                    return try tree.base.unlink(call.path, at: call.directory)
                }
                try call.rename(on: tree)
            }
        },
        Mutation("renaming a file to itself removes it") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                if call.path == call.newPath, call.mode == .replacing, tree.type(call.path, call.directory) == .regular
                {
                    return try tree.base.unlink(call.path, at: call.directory)
                }
                try call.rename(on: tree)
            }
        },
        Mutation("renaming a link moves its target") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                var call = call
                if tree.type(call.path, call.directory) == .symbolicLink,
                    tree.type(call.path, call.directory, follows: true) != nil
                {
                    let target = try tree.base.readSymbolicLink(call.path, at: call.directory)
                    call.path = call.path.splitLast().parent.appending(target)
                }
                try call.rename(on: tree)
            }
        },
        Mutation("a rename leaves the old name behind") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                let isFile = tree.type(call.path, call.directory) == .regular && call.mode == .replacing
                try call.rename(on: tree)
                if isFile, call.path != call.newPath, tree.type(call.path, call.directory) == nil {
                    try tree.base.link(
                        call.newPath, at: call.newDirectory, to: call.path, at: call.directory)
                }
            }
        },
        Mutation("a rename copies the file") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                guard call.mode == .replacing, tree.type(call.path, call.directory) == .regular,
                    tree.type(call.newPath, call.newDirectory) == nil, !call.newPath.hasTrailingSlash
                else { return try call.rename(on: tree) }
                let content = try tree.base.readFile(call.path, at: call.directory)
                let copy = try tree.base.open(
                    call.newPath, at: call.newDirectory, .writeOnly, options: [.create],
                    permissions: FilePermissions(rawValue: 0o644))
                try tree.base.writeBytes(content, to: copy)
                try tree.base.close(copy)
                try tree.base.unlink(call.path, at: call.directory)
            }
        },
        Mutation("renaming a missing file succeeds") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                guard
                    tree.type(call.path, call.directory) != nil || call.path.containsNUL
                        || call.newPath.containsNUL
                else { return }
                try call.rename(on: tree)
            }
        },
        Mutation("an exclusive rename replaces an existing file") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                var call = call
                if call.mode == .exclusive { call.mode = .replacing }
                try call.rename(on: tree)
            }
        },
        Mutation("an exchange only renames") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                var call = call
                if call.mode == .exchanging {
                    call.mode = .replacing
                    if tree.type(call.newPath, call.newDirectory) != nil {
                        try tree.clear(call.newPath, call.newDirectory)
                    }
                }
                try call.rename(on: tree)
            }
        },
        Mutation("an exchange with a missing file is a rename") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                var call = call
                if tree.type(call.newPath, call.newDirectory) == nil { call.mode = .replacing }
                try call.rename(on: tree)
            }
        },
        telling("`.` cannot be renamed because the argument is invalid", .resourceBusy, .invalidArgument),
        telling("moving to another device is not supported", .improperLink, .notSupported),
        Mutation("a new name is relative to the directory of the old one") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                var call = call
                call.newDirectory = call.directory
                try call.rename(on: tree)
            }
        },
        Mutation("a hard link is relative to the directory of its file") {
            $0.link = { (tree, call) throws(FileSystemError) in
                var call = call
                call.newDirectory = call.directory
                try call.link(on: tree)
            }
        },
        Mutation("a slash after an old name is ignored") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                var call = call
                call.path = call.path.withoutTrailingSlashes
                try call.rename(on: tree)
            }
        },
        Mutation("the error of a rename does not name the new path") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try call.rename(on: tree)
                } catch {
                    throw FileSystemError(.rename, error.errno, path: error.path)
                }
            }
        },
        Mutation("a slash after a new name is ignored") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                var call = call
                if tree.type(call.newPath.withoutTrailingSlashes, call.newDirectory) == nil {
                    call.newPath = call.newPath.withoutTrailingSlashes
                }
                try call.rename(on: tree)
            }
        },
        Mutation("a directory is not renamed with a slash after its new name") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                guard !call.newPath.hasTrailingSlash else {
                    throw FileSystemError(.rename, .noSuchFileOrDirectory, path: call.path)
                }
                try call.rename(on: tree)
            }
        },
    ]

    /// A rename that first removes the target.
    private static func replacing(_ description: String, _ source: FileType, over target: FileType) -> Mutation {
        Mutation(description) {
            $0.rename = { (tree, call) throws(FileSystemError) in
                let isPlain = call.path.splitLast().name != "." && call.newPath.splitLast().name != "."
                let isAbove =
                    call.path.bytes.starts(with: call.newPath.bytes)
                    || call.newPath.bytes.starts(with: call.path.bytes)
                if call.mode == .replacing, isPlain, !isAbove, tree.type(call.path, call.directory) == source,
                    tree.type(call.newPath, call.newDirectory) == target
                {
                    try tree.clear(call.newPath, call.newDirectory)
                }
                try call.rename(on: tree)
            }
        }
    }

    private static func telling(_ description: String, _ errno: Errno, _ other: Errno) -> Mutation {
        Mutation(description) {
            $0.rename = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try call.rename(on: tree)
                } catch  where error.errno == errno {
                    throw FileSystemError(.rename, other, path: call.path)
                }
            }
        }
    }
}

extension Mutation {
    static let links: [Mutation] = [
        Mutation("a new file with the inode of a removed link has its target") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                if let status = tree.status(path, directory), status.type == .symbolicLink {
                    let target = try tree.base.readSymbolicLink(path, at: directory)
                    tree.notes.removed.withLock { $0[status.inode] = [target] }
                }
                try tree.base.unlink(path, at: directory)
            }
            $0.readSymbolicLink = { (tree, path, directory) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.readSymbolicLink(path, at: directory)
                } catch {
                    guard let inode = tree.status(path, directory)?.inode,
                        let target = tree.notes.removed.withLock({ $0[inode]?.first })
                    else { throw error }
                    return target
                }
            }
        },
        Mutation("a hard link is made to the target of a symbolic link") {
            $0.link = { (tree, call) throws(FileSystemError) in
                var call = call
                if tree.type(call.path, call.directory) == .symbolicLink,
                    tree.type(call.path, call.directory, follows: true) != nil
                {
                    let target = try tree.base.readSymbolicLink(call.path, at: call.directory)
                    call.path = call.path.splitLast().parent.appending(target)
                }
                try call.link(on: tree)
            }
        },
        Mutation("a hard link replaces an existing file") {
            $0.link = { (tree, call) throws(FileSystemError) in
                if call.newPath.splitLast().name != ".", tree.type(call.path, call.directory) == .regular {
                    try tree.clear(call.newPath, call.newDirectory)
                }
                try call.link(on: tree)
            }
        },
        Mutation("a hard link is a copy") {
            $0.link = { (tree, call) throws(FileSystemError) in
                guard tree.type(call.path, call.directory) == .regular,
                    tree.type(call.newPath, call.newDirectory) == nil, !call.newPath.hasTrailingSlash
                else { return try call.link(on: tree) }
                let copy = try tree.base.open(
                    call.newPath, at: call.newDirectory, .writeOnly, options: [.create, .exclusiveCreate])
                try tree.base.writeBytes(try tree.base.readFile(call.path, at: call.directory), to: copy)
                try tree.base.close(copy)
            }
        },
        Mutation("a hard link to a directory is a symbolic link") {
            $0.link = { (tree, call) throws(FileSystemError) in
                guard tree.type(call.path, call.directory) == .directory else { return try call.link(on: tree) }
                try tree.base.createSymbolicLink(call.newPath, at: call.newDirectory, to: call.path)
            }
        },
        Mutation("a file has 1000 names at most") {
            $0.link = { (tree, call) throws(FileSystemError) in
                if let status = tree.status(call.path, call.directory), status.linkCount >= 1000 {
                    throw FileSystemError(.link, .tooManyLinks, path: call.path)
                }
                try call.link(on: tree)
            }
        },
        Mutation("a symbolic link replaces an existing file") {
            $0.createSymbolicLink = { (tree, path, directory, target) throws(FileSystemError) in
                let name = path.splitLast().name
                if name != ".", name != "..", !target.isEmpty, !path.hasTrailingSlash {
                    try tree.clear(path, directory)
                }
                try tree.base.createSymbolicLink(path, at: directory, to: target)
            }
        },
        Mutation("a symbolic link may be empty") {
            $0.createSymbolicLink = { (tree, path, directory, target) throws(FileSystemError) in
                try tree.base.createSymbolicLink(path, at: directory, to: target.isEmpty ? "." : target)
            }
        },
        Mutation("a symbolic link holds 1023 bytes at most") {
            $0.createSymbolicLink = { (tree, path, directory, target) throws(FileSystemError) in
                try tree.base.createSymbolicLink(path, at: directory, to: POSIXPath(target.bytes.prefix(1023)))
            }
        },
        Mutation("a symbolic link truncates a long target") {
            $0.createSymbolicLink = { (tree, path, directory, target) throws(FileSystemError) in
                try tree.base.createSymbolicLink(path, at: directory, to: POSIXPath(target.bytes.prefix(4095)))
            }
        },
        Mutation("the target of a symbolic link must exist") {
            $0.createSymbolicLink = { (tree, path, directory, target) throws(FileSystemError) in
                try tree.base.createSymbolicLink(path, at: directory, to: target)
                guard tree.type(path, directory, follows: true) == nil else { return }
                try tree.base.unlink(path, at: directory)
                throw FileSystemError(.createSymbolicLink, .noSuchFileOrDirectory, path: path)
            }
        },
        Mutation("reading a link returns the first 255 bytes") {
            $0.readSymbolicLink = { (tree, path, directory) throws(FileSystemError) in
                POSIXPath(try tree.base.readSymbolicLink(path, at: directory).bytes.prefix(255))
            }
        },
        Mutation("reading a link returns the resolved path") {
            $0.readSymbolicLink = { (tree, path, directory) throws(FileSystemError) in
                let target = try tree.base.readSymbolicLink(path, at: directory)
                return target.isAbsolute ? target : path.splitLast().parent.appending(target)
            }
        },
        Mutation("a file that is not a link has itself as its target") {
            $0.readSymbolicLink = { (tree, path, directory) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.readSymbolicLink(path, at: directory)
                } catch  where error.errno == .invalidArgument && !path.containsNUL {
                    return path
                }
            }
        },
    ]
}
