import ForgeFileSystem
import Foundation
import Synchronization
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
        Mutation("a removed directory still counts as a link to its parent") {
            $0.removeDirectory = { (tree, path, directory) throws(FileSystemError) in
                let parent = tree.status(path.splitLast().parent, directory, follows: true)
                try tree.base.removeDirectory(path, at: directory)
                if let parent { tree.notes.removed.withLock { $0[parent.inode, default: []].append(path) } }
            }
            $0.status = { (tree, file) throws(FileSystemError) in
                var status = try tree.base.status(of: file)
                let removed = tree.notes.removed.withLock { $0[status.inode]?.count ?? 0 }
                status.linkCount += UInt64(removed)
                return status
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
        Mutation("unlinking `.` does nothing") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.unlink(path, at: directory)
                } catch  where error.errno == .isDirectory && path.splitLast().name == "." {}
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

extension Mutation {
    static let listing: [Mutation] = [
        listing("listings are sorted") { $0.sort { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) } },
        listing("listings hold `.`") { $0.append(DirectoryEntry(name: ".", type: .directory, inode: 1)) },
        listing("listings hold `..`") { $0.insert(DirectoryEntry(name: "..", type: .directory, inode: 1), at: 0) },
        listing("a long listing ends at 100 names") { $0 = Array($0.prefix(100)) },
        listing("a listing contains a name twice") { if let first = $0.first { $0.append(first) } },
        listing("a listing omits the last name") { if $0.count > 1 { $0.removeLast() } },
        listing("a listing reports every entry as a file") { entries in
            for index in entries.indices { entries[index].type = .regular }
        },
        listing("a listing reports links as files") { entries in
            for index in entries.indices where entries[index].type == .symbolicLink { entries[index].type = .regular }
        },
        listing("a listing has no inode numbers") { entries in
            for index in entries.indices { entries[index].inode = 0 }
        },
        listing("a listing converts names to text") { entries in
            for index in entries.indices { entries[index].name = POSIXPath(String(entries[index].name)) }
        },
        Mutation("a file can be listed") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.entries(of: descriptor)
                } catch  where error.errno == .notDirectory {
                    return []
                }
            }
        },
        Mutation("listing a file moves its offset") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                if tree.call(of: descriptor) != nil { try tree.move(descriptor, to: 0) }
                return try tree.base.entries(of: descriptor)
            }
        },
        Mutation("a removed directory can be listed") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.entries(of: descriptor)
                } catch  where error.errno == .noSuchFileOrDirectory {
                    return []
                }
            }
        },
        Mutation("an invalid descriptor has an empty listing") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.entries(of: descriptor)
                } catch  where error.errno == .badFileDescriptor {
                    return []
                }
            }
        },
        Mutation("a directory can be listed only once") {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                let inode = try tree.base.status(of: .descriptor(descriptor)).inode
                let isKnown = tree.notes.cut.withLock { $0.updateValue([], forKey: inode) != nil }
                return isKnown ? [] : try tree.base.entries(of: descriptor)
            }
        },
    ]

    private static func listing(
        _ description: String, _ change: @escaping @Sendable (inout [DirectoryEntry]) -> Void
    ) -> Mutation {
        Mutation(description) {
            $0.entries = { (tree, descriptor) throws(FileSystemError) in
                var entries = try tree.base.entries(of: descriptor)
                change(&entries)
                return entries
            }
        }
    }
}

extension Mutation {
    static let walking: [Mutation] = [
        Mutation("slashes after a path are ignored") { $0.path = { $0.withoutTrailingSlashes } },
        Mutation("slashes after a path are ignored on opening") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                call.path = call.path.withoutTrailingSlashes
                return try call(on: tree)
            }
        },
        Mutation("`..` removes the component before it, link or not") {
            $0.path = { path in
                var kept: [ArraySlice<UInt8>] = []
                for part in path.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
                    if part.elementsEqual("..".utf8), let last = kept.last, !last.isEmpty,
                        !last.elementsEqual("..".utf8)
                    {
                        kept.removeLast()
                    } else {
                        kept.append(part)
                    }
                }
                return POSIXPath(kept.joined(separator: [UInt8(ascii: "/")]))
            }
        },
        Mutation("`.` is removed from paths") {
            $0.path = { path in
                path.count > 1 ? path.mapComponents { $0.elementsEqual(".".utf8) ? nil : Array($0) } : path
            }
        },
        Mutation("names are kept in lower case") {
            $0.path = { path in
                path.mapComponents { part in part.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 } }
            }
        },
        Mutation("names are normalised") {
            $0.path = { path in
                path.mapComponents { part in
                    String(validating: part, as: UTF8.self).map { Array($0.precomposedStringWithCanonicalMapping.utf8) }
                        ?? Array(part)
                }
            }
        },
        Mutation("bytes that are not UTF-8 are replaced") {
            $0.path = { path in path.mapComponents { Array(String(decoding: $0, as: UTF8.self).utf8) } }
        },
        Mutation("a name that is too long is truncated") { $0.path = { $0.mapComponents { Array($0.prefix(255)) } } },
        Mutation("a path ends at a NUL") {
            $0.path = { path in POSIXPath(path.bytes.prefix { $0 != 0 }) }
        },
        Mutation("an empty path is the working directory") { $0.path = { $0.isEmpty ? "." : $0 } },
        Mutation("names have 200 bytes at most") {
            $0.path = { path in
                path.mapComponents { $0.count > 200 ? [UInt8](repeating: 0x78, count: 256) : Array($0) }
            }
        },
        Mutation("paths have 4000 bytes at most") {
            $0.path = { $0.count > 4000 ? POSIXPath([UInt8](repeating: 0x2F, count: 5000)) : $0 }
        },
        Mutation("paths may have more than 4095 bytes") {
            $0.path = { path in
                guard path.count >= 4096 else { return path }
                let parts = path.bytes.split(separator: UInt8(ascii: "/"))
                return POSIXPath([0x2F] + parts.joined(separator: [UInt8(ascii: "/")]))
            }
        },
        Mutation("a chain of 41 links is followed") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .tooManySymbolicLinkLevels {
                    guard call.resolution.isEmpty, !call.options.contains(.noFollow) else { throw error }
                    var shorter = call
                    let target = try tree.base.readSymbolicLink(call.path, at: call.directory)
                    shorter.path = call.path.splitLast().parent.appending(target)
                    return try shorter(on: tree)
                }
            }
        },
        Mutation("a chain of 40 links is too long") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var path = call.path
                var links = 0
                while links < 40, tree.type(path, call.directory) == .symbolicLink {
                    links += 1
                    let target = try tree.base.readSymbolicLink(path, at: call.directory)
                    path = target.isAbsolute ? target : path.splitLast().parent.appending(target)
                }
                guard links < 40 else { throw FileSystemError(.open, .tooManySymbolicLinkLevels, path: call.path) }
                return try call(on: tree)
            }
        },
        Mutation("a cycle of links is reported as a missing file") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .tooManySymbolicLinkLevels {
                    throw FileSystemError(.open, .noSuchFileOrDirectory, path: call.path)
                }
            }
        },
        Mutation("a path below a file is reported as missing") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .notDirectory && !call.path.hasTrailingSlash {
                    throw FileSystemError(.open, .noSuchFileOrDirectory, path: call.path)
                }
            }
        },
    ]
}
