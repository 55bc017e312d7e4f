import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import SystemPackage

extension Mutation {
    static let mapping: [Mutation] = [
        Mutation("a store is visible only through its own mapping") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                let copy = PrivateCopy(try tree.content(of: descriptor, at: offset, count: count))
                return FileMapping(
                    watching: mapping, load: { copy.bytes(in: $1) }, store: { copy.store($1, at: $2) })
            }
        },
        Mutation("a mapping does not show later writes") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                let copy = PrivateCopy(try tree.content(of: descriptor, at: offset, count: count))
                return copy.shown(by: mapping)
            }
        },
        Mutation("a mapping of a large file shows zeros until the file is changed") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                guard count > 65_536, let before = tree.modified(descriptor) else { return mapping }
                let zeros = PrivateCopy([UInt8](repeating: 0, count: count))
                return FileMapping(
                    watching: mapping,
                    load: { tree.modified(descriptor) == before ? zeros.bytes(in: $1) : $0.bytes(in: $1) })
            }
        },
        Mutation("what is stored behind the end of a file stays in its mapping when the file grows") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                let size = try tree.size(of: descriptor)
                guard size == 10 else { return mapping }
                let copy = PrivateCopy(try tree.content(of: descriptor, at: offset, count: count))
                return copy.shown(by: mapping)
            }
        },
        Mutation("the page behind the end of a file can be loaded") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                let zeros = PrivateCopy([UInt8](repeating: 0, count: count))
                return FileMapping(
                    watching: mapping,
                    load: { $1.count == 1 && $1.lowerBound % 4096 == 0 ? zeros.bytes(in: $1) : $0.bytes(in: $1) })
            }
        },
        Mutation("a store is visible only after it is written back") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                let pending = PendingStores()
                return FileMapping(
                    watching: mapping, store: { _, bytes, place in pending.add(bytes, place) },
                    writeBack: { (mapping) throws(FileSystemError) in
                        pending.flush(into: mapping)
                        try mapping.writeBack()
                    })
            }
        },
        Mutation("every mapping starts at the start of the file") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                _ = try tree.base.map(descriptor, at: offset, count: count)
                return try tree.base.map(descriptor, at: 0, count: count)
            }
        },
        Mutation("closing the descriptor ends the mapping") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                return FileMapping(
                    watching: mapping,
                    store: { if tree.call(of: descriptor) != nil { $0.store($1, at: $2) } })
            }
        },
        Mutation("unlinking the file ends the mapping") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                return FileMapping(
                    watching: mapping, store: { if tree.hasName(descriptor) { $0.store($1, at: $2) } })
            }
        },
        Mutation("a mapping ends with the last name and the last descriptor of its file") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                guard let call = tree.call(of: descriptor) else { return mapping }
                return FileMapping(
                    watching: mapping,
                    store: {
                        let isOpen = tree.call(of: descriptor) != nil
                        if isOpen || tree.type(call.path, call.directory) != nil { $0.store($1, at: $2) }
                    })
            }
        },
        Mutation("the space of a mapped file is never freed") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                _ = try tree.base.duplicate(descriptor)
                return try tree.base.map(descriptor, at: offset, count: count)
            }
        },
        Mutation("the last byte of a store is lost") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                FileMapping(
                    watching: try tree.base.map(descriptor, at: offset, count: count),
                    store: { $0.store(UnsafeRawBufferPointer(rebasing: $1.dropLast()), at: $2) })
            }
        },
        Mutation("a store does not cross a page boundary") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                FileMapping(
                    watching: try tree.base.map(descriptor, at: offset, count: count),
                    store: { $0.store(UnsafeRawBufferPointer(rebasing: $1.prefix(4096 - $2 % 4096)), at: $2) })
            }
        },
        Mutation("a file is extended to the end of its mapping") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                if try tree.size(of: descriptor) < offset + Int64(count) {
                    try tree.base.truncate(.descriptor(descriptor), to: offset + Int64(count))
                }
                return mapping
            }
        },
        Mutation("nothing is mapped beyond the end of a file") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                guard offset < (try tree.size(of: descriptor)) else { throw FileSystemError(.map, .noMemory) }
                return mapping
            }
        },
        Mutation("a store extends the file") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                FileMapping(
                    watching: try tree.base.map(descriptor, at: offset, count: count),
                    store: { mapping, bytes, place in
                        tree.extend(descriptor, to: offset + Int64(place + bytes.count))
                        mapping.store(bytes, at: place)
                    })
            }
        },
        Mutation("a store is not a modification") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                FileMapping(
                    watching: try tree.base.map(descriptor, at: offset, count: count),
                    store: { mapping, bytes, place in
                        let before = tree.modified(descriptor)
                        mapping.store(bytes, at: place)
                        if let before { tree.setModified(before, of: .descriptor(descriptor)) }
                    })
            }
        },
        Mutation("only the first two stores through a mapping are modifications") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let (first, second) = (Flag(), Flag())
                return FileMapping(
                    watching: try tree.base.map(descriptor, at: offset, count: count),
                    store: { mapping, bytes, place in
                        let before = tree.modified(descriptor)
                        mapping.store(bytes, at: place)
                        guard first.raise(), second.raise(), let before else { return }
                        tree.setModified(before, of: .descriptor(descriptor))
                    })
            }
        },
        Mutation("a mapping of a file open for appending stores at its end") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let mapping = try tree.base.map(descriptor, at: offset, count: count)
                guard tree.isAppending(descriptor) else { return mapping }
                return FileMapping(
                    watching: mapping, store: { mapping, bytes, _ in mapping.store(bytes, at: count - bytes.count) })
            }
        },
        Mutation("a file open for reading is mapped") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                try tree.mapping(descriptor, offset, count, insteadOf: .readOnly)
            }
        },
        Mutation("a file open for writing is mapped") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                try tree.mapping(descriptor, offset, count, insteadOf: .writeOnly)
            }
        },
        Mutation("an offset within a page is rounded down") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                try tree.base.map(descriptor, at: offset & ~4095, count: count)
            }
        },
        Mutation("mapping no bytes maps one byte") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                try tree.base.map(descriptor, at: offset, count: count == 0 ? 1 : count)
            }
        },
        Mutation("mapping a FIFO fails with the error for a file") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                do throws(FileSystemError) {
                    return try tree.base.map(descriptor, at: offset, count: count)
                } catch  where error.errno == .operationNotSupportedByDevice {
                    throw FileSystemError(.map, .permissionDenied)
                }
            }
        },
        Mutation("a mapping is written back only once") {
            $0.map = { (tree, descriptor, offset, count) throws(FileSystemError) in
                let hasBeen = Flag()
                return FileMapping(
                    watching: try tree.base.map(descriptor, at: offset, count: count),
                    writeBack: { (mapping) throws(FileSystemError) in
                        if hasBeen.raise() { throw FileSystemError(.writeBack, .invalidArgument) }
                        try mapping.writeBack()
                    })
            }
        },
    ]
}

extension MutantFileSystem {
    /// Maps a file opened with `mode` as if it were open for reading and writing.
    fileprivate func mapping(
        _ descriptor: Descriptor, _ offset: Int64, _ count: Int, insteadOf mode: FileDescriptor.AccessMode
    ) throws(FileSystemError) -> FileMapping {
        guard let call = call(of: descriptor), call.mode == mode, type(call.path, call.directory) == .regular else {
            return try base.map(descriptor, at: offset, count: count)
        }
        let opened = try reopen(descriptor) { $0.mode = .readWrite }
        return try base.closing(opened) { () throws(FileSystemError) in
            try base.map(opened, at: offset, count: count)
        }
    }

    /// The initial content of a mapping.
    fileprivate func content(
        of descriptor: Descriptor, at offset: Int64, count: Int
    ) throws(FileSystemError) -> [UInt8] {
        let content = try base.readBytes(of: descriptor, at: offset, count: count)
        return content + [UInt8](repeating: 0, count: count - content.count)
    }

    fileprivate func hasName(_ descriptor: Descriptor) -> Bool {
        do {
            return try base.status(of: .descriptor(descriptor)).linkCount > 0
        } catch {
            return true
        }
    }

    fileprivate func modified(_ descriptor: Descriptor) -> FileTime? {
        do {
            return try base.status(of: .descriptor(descriptor)).modified
        } catch {
            return nil
        }
    }

    fileprivate func extend(_ descriptor: Descriptor, to size: Int64) {
        do {
            if try self.size(of: descriptor) < size { try base.truncate(.descriptor(descriptor), to: size) }
        } catch {
            // The descriptor is closed, so the file cannot be extended through it.
        }
    }
}

/// A private copy of a mapping's memory.
private final class PrivateCopy: @unchecked Sendable {
    /// Used only by the thread of one check.
    private let memory: UnsafeMutableRawBufferPointer

    init(_ content: [UInt8]) {
        memory = .allocate(byteCount: content.count, alignment: 8)
        memory.copyBytes(from: content)
    }

    deinit { memory.deallocate() }

    func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: memory[range])
    }

    func store(_ bytes: UnsafeRawBufferPointer, at place: Int) {
        UnsafeMutableRawBufferPointer(rebasing: memory[place...]).copyMemory(from: bytes)
    }

    /// A mapping that shows the copy; stores change it and the file.
    func shown(by mapping: FileMapping) -> FileMapping {
        FileMapping(
            watching: mapping, load: { self.bytes(in: $1) },
            store: {
                self.store($1, at: $2)
                $0.store($1, at: $2)
            })
    }
}

/// Stores that are not yet visible.
private final class PendingStores: Sendable {
    private let stores = Mutex<[(place: Int, bytes: [UInt8])]>([])

    func add(_ bytes: UnsafeRawBufferPointer, _ place: Int) {
        let bytes = [UInt8](bytes)
        stores.withLock { $0.append((place, bytes)) }
    }

    func flush(into mapping: FileMapping) {
        let stores = stores.withLock { stores in
            defer { stores = [] }
            return stores
        }
        for (place, bytes) in stores { bytes.withUnsafeBytes { mapping.store($0, at: place) } }
    }
}

/// A flag that is raised at most once.
private final class Flag: Sendable {
    private let isUp = Atomic(false)

    /// Raises the flag and returns whether it was already raised.
    func raise() -> Bool { isUp.exchange(true, ordering: .relaxed) }
}
