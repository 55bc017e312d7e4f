import ForgeFileSystem
import SystemPackage

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
