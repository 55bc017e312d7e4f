import ForgeFileSystem
import SystemPackage

extension Mutation {
    static let links: [Mutation] = [
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
