import ForgeFileSystem
import Synchronization
import SystemPackage

extension Mutation {
    static let content: [Mutation] = [
        Mutation("a hole is full of garbage") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let size = try tree.size(of: descriptor)
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                if let offset, offset > size, !tree.isAppending(descriptor) {
                    try tree.fill(.descriptor(descriptor), size..<offset, with: 0xAA)
                }
                return count
            }
        },
        Mutation("a file that is extended is full of garbage") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                let old = try tree.base.status(of: file).sizeInBytes
                try tree.base.truncate(file, to: size)
                if size > old { try tree.fill(file, old..<size, with: 0x5A) }
            }
        },
        Mutation("truncated bytes reappear when the file grows") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                let status = try tree.base.status(of: file)
                guard case .descriptor(let descriptor) = file, status.sizeInBytes < 1 << 20 else {
                    return try tree.base.truncate(file, to: size)
                }
                if size < status.sizeInBytes {
                    let content = try tree.base.readContents(of: descriptor)
                    tree.notes.cut.withLock { $0[status.inode] = content }
                    return try tree.base.truncate(file, to: size)
                }
                try tree.base.truncate(file, to: size)
                guard let old = tree.notes.cut.withLock({ $0[status.inode] }) else { return }
                let end = min(Int(size), old.count)
                guard Int(status.sizeInBytes) < end else { return }
                try tree.base.writeBytes(
                    Array(old[Int(status.sizeInBytes)..<end]), to: descriptor, at: status.sizeInBytes)
            }
        },
        Mutation("the last byte of a file is never read") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                let start = try tree.start(descriptor, offset)
                let count = try tree.base.read(descriptor, into: buffer, at: offset)
                guard count > 0, start + Int64(count) == (try tree.size(of: descriptor)) else { return count }
                if offset == nil { try tree.move(descriptor, to: start + Int64(count - 1)) }
                return count - 1
            }
        },
        Mutation("the last byte of a long write is lost") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let start = try tree.start(descriptor, offset)
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                guard count > 4096 else { return count }
                let end = start + Int64(count)
                try tree.fill(.descriptor(descriptor), end - 1..<end, with: 0)
                return count
            }
        },
        Mutation("a write across 64 KiB stores zeros after it") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                guard let offset, offset < 65_536, offset + Int64(count) > 65_536 else { return count }
                try tree.fill(.descriptor(descriptor), 65_536..<offset + Int64(count), with: 0)
                return count
            }
        },
        Mutation("reading far beyond the end returns zeros") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                guard let offset, offset > (try tree.size(of: descriptor)) + 4096 else {
                    return try tree.base.read(descriptor, into: buffer, at: offset)
                }
                buffer.initializeMemory(as: UInt8.self, repeating: 0)
                return buffer.count
            }
        },
        Mutation("reading beyond the end is refused") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                if let offset, offset > 0, offset > (try tree.size(of: descriptor)) {
                    throw FileSystemError(.read, .invalidArgument)
                }
                return try tree.base.read(descriptor, into: buffer, at: offset)
            }
        },
        Mutation("reading a directory returns no bytes") {
            $0.read = { (tree, descriptor, buffer, offset) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.read(descriptor, into: buffer, at: offset)
                } catch  where error.errno == .isDirectory {
                    return 0
                }
            }
        },
        Mutation("a file unlinked while open loses its content") {
            $0.unlink = { (tree, path, directory) throws(FileSystemError) in
                if let status = tree.status(path, directory), status.type == .regular, status.linkCount == 1 {
                    try tree.base.truncate(.path(path, at: directory), to: 0)
                }
                try tree.base.unlink(path, at: directory)
            }
        },
        Mutation("a file replaced by a rename while open loses its content") {
            $0.rename = { (tree, call) throws(FileSystemError) in
                if call.mode == .replacing, tree.type(call.newPath, call.newDirectory) == .regular,
                    tree.type(call.path, call.directory) == .regular,
                    tree.status(call.newPath, call.newDirectory)?.inode != tree.status(call.path, call.directory)?.inode
                {
                    try tree.base.truncate(.path(call.newPath, at: call.newDirectory), to: 0)
                }
                try call.rename(on: tree)
            }
        },
        Mutation("a reservation sets the size, even to a smaller one") {
            $0.allocate = { (tree, descriptor, offset, length) throws(FileSystemError) in
                try tree.base.allocate(descriptor, at: offset, length: length)
                try tree.base.truncate(.descriptor(descriptor), to: offset + length)
            }
        },
        Mutation("a reservation does not extend the file") {
            $0.allocate = { (tree, descriptor, offset, length) throws(FileSystemError) in
                let size = try tree.size(of: descriptor)
                try tree.base.allocate(descriptor, at: offset, length: length)
                try tree.base.truncate(.descriptor(descriptor), to: size)
            }
        },
        Mutation("a reservation reserves nothing") {
            $0.allocate = { (tree, descriptor, offset, length) throws(FileSystemError) in
                guard offset >= 0, length > 0 else { throw FileSystemError(.allocate, .invalidArgument) }
                let size = try tree.size(of: descriptor)
                guard tree.call(of: descriptor)?.mode != .readOnly else {
                    throw FileSystemError(.allocate, .badFileDescriptor)
                }
                if size < offset + length { try tree.base.truncate(.descriptor(descriptor), to: offset + length) }
            }
        },
        Mutation("a hole takes space") {
            $0.status = { (tree, file) throws(FileSystemError) in
                var status = try tree.base.status(of: file)
                if status.type == .regular {
                    status.allocatedSizeInBytes = max(status.allocatedSizeInBytes, (status.sizeInBytes + 4095) & ~4095)
                }
                return status
            }
        },
        Mutation("a file that is cut in a hole has a block at its end") {
            $0.truncate = { (tree, file, size) throws(FileSystemError) in
                let old = try tree.base.status(of: file).sizeInBytes
                try tree.base.truncate(file, to: size)
                if size < old, size > 1 << 20 { try tree.fill(file, size - 1..<size, with: 0) }
            }
        },
        Mutation("a reservation frees the space that was written before") {
            $0.status = { (tree, file) throws(FileSystemError) in
                var status = try tree.base.status(of: file)
                let isReserved = tree.notes.cut.withLock { $0[status.inode] != nil }
                if isReserved { status.allocatedSizeInBytes -= 4096 }
                return status
            }
            $0.allocate = { (tree, descriptor, offset, length) throws(FileSystemError) in
                try tree.base.allocate(descriptor, at: offset, length: length)
                let inode = try tree.base.status(of: .descriptor(descriptor)).inode
                let first = try tree.base.readBytes(of: descriptor, at: offset, count: 1)
                if first != [0] { tree.notes.cut.withLock { $0[inode] = first } }
            }
        },
        Mutation("bytes that do not fit into a FIFO are lost") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                return try tree.base.status(of: .descriptor(descriptor)).type == .fifo ? bytes.count : count
            }
        },
        Mutation("a full device accepts no partial write") {
            $0.write = { (tree, descriptor, bytes, offset) throws(FileSystemError) in
                let count = try tree.base.write(descriptor, from: bytes, at: offset)
                guard count == bytes.count else { throw FileSystemError(.write, .noSpace) }
                return count
            }
        },
    ]
}

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
        Mutation("seeking for data does not move the offset") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                let start = try tree.position(of: descriptor)
                let found = try tree.base.seek(descriptor, to: offset, from: origin)
                if origin == .data { try tree.move(descriptor, to: start) }
                return found
            }
        },
        Mutation("seeking for data skips a block") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                try tree.base.seek(descriptor, to: origin == .data ? offset + 4096 : offset, from: origin)
            }
        },
        Mutation("seeking for data finds none within the first block") {
            $0.seek = { (tree, descriptor, offset, origin) throws(FileSystemError) in
                guard origin == .data, (1..<4096).contains(offset) else {
                    return try tree.base.seek(descriptor, to: offset, from: origin)
                }
                return try tree.base.seek(descriptor, to: 4096, from: .data)
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
