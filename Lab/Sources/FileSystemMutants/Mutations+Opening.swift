import ForgeFileSystem
import SystemPackage

extension Mutation {
    static let opening: [Mutation] = [
        ignoring(.exclusiveCreate, "an exclusive creation opens what exists"),
        ignoring(.truncate, "opening never truncates"),
        ignoring(.noFollow, "a link at the end is always followed"),
        ignoring(.directory, "a file can be opened as a directory"),
        ignoring(.append, "an append writes at the offset"),
        Mutation("an exclusive creation follows a dangling link") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                let isDangling =
                    tree.type(call.path, call.directory) == .symbolicLink
                    && tree.type(call.path, call.directory, follows: true) == nil
                if isDangling { call.options.remove(.exclusiveCreate) }
                return try call(on: tree)
            }
        },
        Mutation("a creation makes missing parent directories") {
            $0.open = { (tree, call) throws(FileSystemError) in
                let (parent, _) = call.path.splitLast()
                if call.options.contains(.create), !parent.isEmpty {
                    try tree.base.makeDirectories(parent, permissions: .ownerReadWriteExecute)
                }
                return try call(on: tree)
            }
        },
        Mutation("a creation does not follow a dangling link") {
            $0.open = { (tree, call) throws(FileSystemError) in
                if call.options.contains(.create), tree.type(call.path, call.directory) == .symbolicLink,
                    tree.type(call.path, call.directory, follows: true) == nil
                {
                    throw FileSystemError(.open, .noSuchFileOrDirectory, path: call.path)
                }
                return try call(on: tree)
            }
        },
        Mutation("a directory can be opened for writing") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if tree.type(call.path, call.directory, follows: true) == .directory { call.mode = .readOnly }
                return try call(on: tree)
            }
        },
        Mutation("opening a directory for creation succeeds") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if !call.options.contains(.exclusiveCreate),
                    tree.type(call.path, call.directory, follows: true) == .directory
                {
                    call.options.remove(.create)
                }
                return try call(on: tree)
            }
        },
        Mutation("truncating a directory on opening succeeds") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if tree.type(call.path, call.directory, follows: true) == .directory {
                    call.options.remove(.truncate)
                }
                return try call(on: tree)
            }
        },
        Mutation("opening for reading does not truncate") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if call.mode == .readOnly { call.options.remove(.truncate) }
                return try call(on: tree)
            }
        },
        Mutation("the umask does not apply to a new file") {
            $0.open = { (tree, call) throws(FileSystemError) in
                let isNew = tree.type(call.path, call.directory, follows: true) == nil
                let descriptor = try call(on: tree)
                if isNew, call.options.contains(.create) {
                    try tree.base.setPermissions(call.permissions, of: .descriptor(descriptor))
                }
                return descriptor
            }
        },
        Mutation("a descriptor for writing reads") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if call.mode == .writeOnly { call.mode = .readWrite }
                return try call(on: tree)
            }
        },
        Mutation("a descriptor for reading writes") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if call.mode == .readOnly, tree.type(call.path, call.directory, follows: true) == .regular {
                    call.mode = .readWrite
                }
                return try call(on: tree)
            }
        },
        Mutation("a path can leave the directory it is confined to") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                call.resolution.remove(.beneath)
                return try call(on: tree)
            }
        },
        Mutation("links are followed although forbidden") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                call.resolution.remove(.noSymbolicLinks)
                return try call(on: tree)
            }
        },
        Mutation("when links are forbidden, only the last component is checked") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if call.resolution.contains(.noSymbolicLinks) { call.options.insert(.noFollow) }
                call.resolution.remove(.noSymbolicLinks)
                return try call(on: tree)
            }
        },
        Mutation("a new descriptor has the highest free number, not the lowest") {
            $0.open = { (tree, call) throws(FileSystemError) in
                let lowest = try call(on: tree)
                var call = call
                call.options.subtract([.exclusiveCreate, .truncate])
                defer { do { try tree.base.close(lowest) } catch _ {} }
                return try call(on: tree)
            }
        },
        Mutation("the limit of the process is reported as the limit of the system") {
            $0.open = { (tree, call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try call(on: tree)
                } catch  where error.errno == .tooManyOpenFiles {
                    throw FileSystemError(.open, .tooManyOpenFilesInSystem, path: call.path)
                }
            }
        },
    ]

    private static func ignoring(_ option: FileDescriptor.OpenOptions, _ description: String) -> Mutation {
        Mutation(description) {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                call.options.remove(option)
                return try call(on: tree)
            }
        }
    }
}
