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
        Mutation("a file that is truncated for reading can be written") {
            $0.open = { (tree, call) throws(FileSystemError) in
                var call = call
                if call.mode == .readOnly, call.options.contains(.truncate) { call.mode = .readWrite }
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

extension Mutation {
    static let descriptors: [Mutation] = [
        Mutation("a duplicate has an offset of its own") {
            $0.duplicate = { (tree, descriptor) throws(FileSystemError) in
                guard tree.call(of: descriptor) != nil else { return try tree.base.duplicate(descriptor) }
                return try tree.reopen(descriptor)
            }
        },
        Mutation("a descriptor can be closed twice") {
            $0.close = { (tree, descriptor) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.close(descriptor)
                } catch  where error.errno == .badFileDescriptor {
                    return
                }
            }
        },
        Mutation("writing to an invalid descriptor succeeds") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.write(descriptor, from: bytes, at: offset)
                } catch  where error.errno == .badFileDescriptor && tree.call(of: descriptor) == nil {
                    return bytes.count
                }
            }
        },
        Mutation("locks never conflict") {
            $0.lock = { (tree, descriptor, mode, isWaiting) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.lock(descriptor, mode, waiting: false)
                } catch  where error.errno == .resourceTemporarilyUnavailable {
                    return
                }
            }
        },
        Mutation("a call never waits for a lock") {
            $0.lock = { (tree, descriptor, mode, _) throws(FileSystemError) in
                try tree.base.lock(descriptor, mode, waiting: false)
            }
        },
        Mutation("every lock is exclusive") {
            $0.lock = { (tree, descriptor, mode, _) throws(FileSystemError) in
                // Waiting could deadlock with a lock held by the same caller.
                try tree.base.lock(descriptor, mode == .shared ? .exclusive : mode, waiting: false)
            }
        },
        Mutation("every lock is shared") {
            $0.lock = { (tree, descriptor, mode, isWaiting) throws(FileSystemError) in
                try tree.base.lock(descriptor, mode == .exclusive ? .shared : mode, waiting: isWaiting)
            }
        },
        Mutation("a lock cannot be released") {
            $0.lock = { (tree, descriptor, mode, isWaiting) throws(FileSystemError) in
                if mode != .unlocked { try tree.base.lock(descriptor, mode, waiting: isWaiting) }
            }
        },
        Mutation("closing any descriptor of the file releases a lock") {
            $0.close = { (tree, descriptor) throws(FileSystemError) in
                if tree.call(of: descriptor) != nil { try tree.base.lock(descriptor, .unlocked, waiting: false) }
                try tree.base.close(descriptor)
            }
        },
        Mutation("a lock stays when the file is closed") {
            $0.close = { (tree, descriptor) throws(FileSystemError) in
                if tree.call(of: descriptor)?.mode == .readOnly { _ = try tree.base.duplicate(descriptor) }
                try tree.base.close(descriptor)
            }
        },
        Mutation("synchronising a file opened for reading is refused") {
            $0.synchronize = { (tree, descriptor) throws(FileSystemError) in
                let status = try tree.base.status(of: .descriptor(descriptor))
                if status.type == .regular, tree.call(of: descriptor)?.mode == .readOnly {
                    throw FileSystemError(.synchronize, .badFileDescriptor)
                }
            }
        },
        Mutation("synchronising a directory is refused") {
            $0.synchronize = { (tree, descriptor) throws(FileSystemError) in
                if try tree.base.status(of: .descriptor(descriptor)).type == .directory {
                    throw FileSystemError(.synchronize, .invalidArgument)
                }
            }
        },
        Mutation("synchronising an unlinked file is refused") {
            $0.synchronize = { (tree, descriptor) throws(FileSystemError) in
                if try tree.base.status(of: .descriptor(descriptor)).linkCount == 0 {
                    throw FileSystemError(.synchronize, .noSuchFileOrDirectory)
                }
            }
        },
        Mutation("synchronising an invalid descriptor succeeds") { $0.synchronize = { (_, _) in } },
        Mutation("a descriptor for reading truncates") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                guard case .descriptor(let descriptor) = file, let call = tree.call(of: descriptor) else {
                    return try tree.base.truncate(file, to: size)
                }
                try tree.base.truncate(.path(call.path, at: call.directory), to: size)
            }
        },
        Mutation("truncating a directory does nothing") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try tree.base.truncate(file, to: size)
                } catch  where error.errno == .isDirectory {
                    return
                }
            }
        },
        Mutation("a negative size is taken for zero") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                try tree.base.truncate(file, to: max(0, size))
            }
        },
        Mutation("truncating always follows links") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                try tree.base.truncate(file.following(true), to: size)
            }
        },
        Mutation("truncating follows a link to nothing") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                guard case .path(let path, let directory, _) = file, tree.type(path, directory, follows: true) == nil
                else { return try tree.base.truncate(file, to: size) }
                try tree.base.truncate(file.following(true), to: size)
            }
        },
        Mutation("a reader that closes a FIFO discards its data") {
            $0.close = { (tree, descriptor) throws(FileSystemError) in
                if tree.call(of: descriptor)?.mode == .readOnly,
                    try tree.base.status(of: .descriptor(descriptor)).type == .fifo
                {
                    var page = [UInt8](repeating: 0, count: 4096)
                    do {
                        _ = try page.withUnsafeMutableBytes { try tree.base.read(descriptor, into: $0, at: nil) }
                    } catch _ {}
                }
                try tree.base.close(descriptor)
            }
        },
        Mutation("truncating creates a missing file") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                if case .path(let path, let directory, _) = file {
                    try tree.base.close(
                        try tree.base.open(path, at: directory, .writeOnly, options: [.create]))
                }
                try tree.base.truncate(file, to: size)
            }
        },
    ]
}
