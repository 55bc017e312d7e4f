import ForgeFileSystem
import SystemPackage

extension Mutation {
    static let offsets: [Mutation] = [
        Mutation("a read does not move the offset") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                guard offset == nil else { return try tree.base.read(descriptor, into: buffer, at: offset) }
                return try tree.base.read(descriptor, into: buffer, at: tree.position(of: descriptor))
            }
        },
        Mutation("a write does not move the offset") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let start = try tree.position(of: descriptor)
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                if offset == nil { try tree.move(descriptor, to: start) }
                return count
            }
        },
        Mutation("a read at an offset moves the file's own") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                let count = try tree.base.read(descriptor, into: buffer, at: offset)
                if let offset { try tree.move(descriptor, to: offset + Int64(count)) }
                return count
            }
        },
        Mutation("a write at an offset moves the file's own") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                if let offset { try tree.move(descriptor, to: offset + Int64(count)) }
                return count
            }
        },
        Mutation("a negative offset is taken for zero in a read") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                try tree.base.read(descriptor, into: buffer, at: offset.map { max(0, $0) })
            }
        },
        Mutation("a negative offset is taken for zero in a write") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                try tree.base.write(descriptor, from: bytes, at: offset.map { max(0, $0) })
            }
        },
        Mutation("seeking before the start stops at the start") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.seek(descriptor, to: offset, from: origin)
                } catch  where error.errno == .invalidArgument {
                    return try tree.base.seek(descriptor, to: 0, from: .start)
                }
            }
        },
        Mutation("seeking for data skips a block") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                try tree.base.seek(descriptor, to: origin == .data ? offset + 4096 : offset, from: origin)
            }
        },
        Mutation("seeking beyond the end stops at the end") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                let position = try tree.base.seek(descriptor, to: offset, from: origin)
                let size = try tree.size(of: descriptor)
                return position > size ? try tree.base.seek(descriptor, to: size, from: .start) : position
            }
        },
        Mutation("seeking from the end starts at the offset") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                try tree.base.seek(descriptor, to: offset, from: origin == .end ? .current : origin)
            }
        },
        Mutation("seeking from the offset starts at the beginning") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                try tree.base.seek(descriptor, to: offset, from: origin == .current ? .start : origin)
            }
        },
        Mutation("a write at an offset ignores the append flag") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                guard offset != nil, tree.isAppending(descriptor) else {
                    return try tree.base.write(descriptor, from: bytes, at: offset)
                }
                let plain = try tree.reopen(descriptor) { $0.options.remove(.append) }
                return try tree.base.closing(plain) { () throws(FileSystemError) in
                    try tree.base.write(plain, from: bytes, at: offset)
                }
            }
        },
        Mutation("an append after a seek writes at the offset") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let position = try tree.position(of: descriptor)
                guard tree.isAppending(descriptor), offset == nil, position < (try tree.size(of: descriptor)) else {
                    return try tree.base.write(descriptor, from: bytes, at: offset)
                }
                let plain = try tree.reopen(descriptor) { $0.options.remove(.append) }
                return try tree.base.closing(plain) { () throws(FileSystemError) in
                    try tree.base.write(plain, from: bytes, at: position)
                }
            }
        },
        Mutation("an append does not move the offset") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let position = try tree.position(of: descriptor)
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                if tree.isAppending(descriptor) { try tree.move(descriptor, to: position) }
                return count
            }
        },
        Mutation("truncating moves the offset to the end") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                try tree.base.truncate(file, to: size)
                if case .descriptor(let descriptor) = file { try tree.move(descriptor, to: size) }
            }
        },
    ]
}
