import ForgeFileSystem
import SystemPackage

extension Mutation {
    static let directories: [Mutation] = [
        Mutation("creating a directory that exists succeeds") {
            $0.createDirectory = { (tree, path, directory, permissions) throws(FileSystemError) in
                if tree.type(path, directory) == .directory { return }
                try tree.base.createDirectory(path, at: directory, permissions: permissions)
            }
        },
        Mutation("creating a directory creates its parents") {
            $0.createDirectory = { (tree, path, directory, permissions) throws(FileSystemError) in
                let (parent, _) = path.splitLast()
                if !parent.isEmpty, tree.type(parent, directory) == nil {
                    try tree.base.createDirectory(parent, at: directory, permissions: permissions)
                }
                try tree.base.createDirectory(path, at: directory, permissions: permissions)
            }
        },
        Mutation("a directory is not created with a slash after its name") {
            $0.createDirectory = { (tree, path, directory, permissions) throws(FileSystemError) in
                guard !path.hasTrailingSlash else {
                    throw FileSystemError(.createDirectory, .noSuchFileOrDirectory, path: path)
                }
                try tree.base.createDirectory(path, at: directory, permissions: permissions)
            }
        },
        Mutation("a directory is created at the target of a dangling link") {
            $0.createDirectory = { (tree, path, directory, permissions) throws(FileSystemError) in
                guard tree.type(path, directory) == .symbolicLink, tree.type(path, directory, follows: true) == nil
                else {
                    return try tree.base.createDirectory(path, at: directory, permissions: permissions)
                }
                let target = try tree.base.readSymbolicLink(path, at: directory)
                try tree.base.createDirectory(
                    path.splitLast().parent.appending(target), at: directory, permissions: permissions)
            }
        },
        Mutation("a directory is created in a removed directory") {
            $0.createDirectory = { (tree, path, directory, permissions) throws(FileSystemError) in
                if directory != .workingDirectory,
                    try tree.base.status(of: .descriptor(directory)).linkCount == 0
                {
                    return
                }
                try tree.base.createDirectory(path, at: directory, permissions: permissions)
            }
        },
        Mutation("a directory is removed with all its entries") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                let isPlain = path.splitLast().name != "." && path.splitLast().name != ".."
                guard isPlain, path != "/", tree.type(path, directory) == .directory else {
                    return try tree.base.removeDirectory(path, at: directory)
                }
                try tree.base.removeTree(path, at: directory)
            }
        },
        Mutation("a file is removed as a directory") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                guard tree.type(path, directory) == .regular else {
                    return try tree.base.removeDirectory(path, at: directory)
                }
                try tree.base.unlink(path, at: directory)
            }
        },
        Mutation("a link to a directory is removed as one") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                guard tree.type(path, directory) == .symbolicLink else {
                    return try tree.base.removeDirectory(path, at: directory)
                }
                try tree.base.unlink(path, at: directory)
            }
        },
        Mutation("a directory is removed as `.`") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                let (parent, name) = path.splitLast()
                try tree.base.removeDirectory(name == "." ? parent : path, at: directory)
            }
        },
        Mutation("removing a missing directory succeeds") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.removeDirectory(path, at: directory)
                } catch  where error.errno == .noSuchFileOrDirectory {
                    return
                }
            }
        },
        Mutation("unlinking removes an empty directory") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                guard tree.type(path, directory) == .directory else {
                    return try tree.base.unlink(path, at: directory)
                }
                try tree.base.removeDirectory(path, at: directory)
            }
        },
        Mutation("unlinking a directory is not permitted") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.unlink(path, at: directory)
                } catch  where error.errno == .isDirectory {
                    throw FileSystemError(.unlink, .notPermitted, path: path)
                }
            }
        },
        Mutation("unlinking a missing file succeeds") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.unlink(path, at: directory)
                } catch  where error.errno == .noSuchFileOrDirectory {
                    return
                }
            }
        },
        Mutation("unlinking a link removes its target") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                guard tree.type(path, directory) == .symbolicLink,
                    tree.type(path, directory, follows: true) == .regular
                else { return try tree.base.unlink(path, at: directory) }
                let target = try tree.base.readSymbolicLink(path, at: directory)
                try tree.base.unlink(path.splitLast().parent.appending(target), at: directory)
            }
        },
        Mutation("a file is unlinked despite a slash after its name") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                let plain = path.withoutTrailingSlashes
                try tree.base.unlink(tree.type(plain, directory) == .regular ? plain : path, at: directory)
            }
        },
        Mutation("unlinking removes all names of a file") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                let status = tree.status(path, directory)
                try tree.base.unlink(path, at: directory)
                guard let status, status.type == .regular, status.linkCount > 1 else { return }
                let parent = path.splitLast().parent
                let names = try tree.base.withDirectory(parent, at: directory) { (open) throws(FileSystemError) in
                    try tree.base.entries(of: open)
                }
                for entry in names where entry.inode == status.inode {
                    try tree.base.unlink(parent.appending(entry.name), at: directory)
                }
            }
        },
    ]
}
