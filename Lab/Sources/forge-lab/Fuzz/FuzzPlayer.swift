import ForgeFileSystem
import SystemPackage

/// Makes the calls on one side and keeps the resulting descriptors.
struct FuzzPlayer<Side: FuzzSide> {
    private(set) var side: Side
    private let comparesAccess: Bool
    private var slots = [Descriptor](repeating: closed, count: FuzzOperation.slotCount)
    private var mappings = [Mapped?](repeating: nil, count: FuzzOperation.mappingCount)
    private let buffer: UnsafeMutableRawBufferPointer

    /// A mapping and a descriptor of its file, which shows how much of the mapping is usable.
    private struct Mapped {
        var mapping: FileMapping
        var offset: Int64
        var descriptor: Descriptor
    }

    /// Higher than any process's open-file limit.
    private static var closed: Descriptor { Descriptor(rawValue: 1_999_999) }

    /// The buffer must hold as many bytes as any call transfers; a finished player does not access it.
    init(_ side: Side, limits: FuzzLimits, buffer: UnsafeMutableRawBufferPointer) {
        self.side = side
        self.buffer = buffer
        comparesAccess = limits.comparesAccess
    }

    /// Resets to an empty tree without open descriptors.
    mutating func reset() throws {
        try closeAll()
        try side.reset()
    }

    mutating func perform(_ operation: FuzzOperation) throws -> FuzzOutcome {
        do {
            return try call(operation)
        } catch let error as FileSystemError {
            return .failed(error.errno)
        }
    }

    private mutating func closeAll() throws {
        for slot in mappings.indices { try unmap(slot) }
        for slot in slots.indices { try close(slot) }
    }

    private mutating func close(_ slot: Int) throws {
        let descriptor = slots[slot]
        guard descriptor != Self.closed else { return }
        slots[slot] = Self.closed
        try side.fileSystem.close(descriptor)
    }

    private mutating func unmap(_ slot: Int) throws {
        guard let mapped = mappings[slot] else { return }
        mappings[slot] = nil
        try side.fileSystem.close(mapped.descriptor)
    }

    private mutating func call(_ operation: FuzzOperation) throws -> FuzzOutcome {
        let fileSystem = side.fileSystem
        switch operation {
        case .open(let slot, let place, let mode, let options, let permissions, let resolution):
            // The path may start at the old descriptor, so that is closed last.
            let opened = try fileSystem.open(
                place.path, at: base(place), mode, options: options, permissions: permissions,
                resolution: resolution)
            try close(slot)
            slots[slot] = opened
            return .done
        case .close(let slot):
            let descriptor = slots[slot]
            slots[slot] = Self.closed
            try fileSystem.close(descriptor)
            return .done
        case .duplicate(let slot, let into):
            let copy = try fileSystem.duplicate(slots[slot])
            try close(into)
            slots[into] = copy
            return .done
        case .become(let identity):
            try closeAll()
            try side.become(identity)
            return .done
        case .enter(let path):
            try side.enter(path)
            return .done
        case .map(let slot, let offset, let count, let into):
            let mapping = try fileSystem.map(slots[slot], at: offset, count: count)
            let descriptor = try fileSystem.duplicate(slots[slot])
            try unmap(into)
            mappings[into] = Mapped(mapping: mapping, offset: offset, descriptor: descriptor)
            return .done
        case .unmap(let slot):
            try unmap(slot)
            return .done
        case .store, .load, .writeBack:
            return try callMapping(operation, fileSystem)
        case .read, .write, .seek, .truncate, .allocate, .synchronize, .lock, .list:
            return try callContent(operation, fileSystem)
        case .status, .setPermissions, .setOwner, .setTimes:
            return try callAttributes(operation, fileSystem)
        case .createDirectory, .createNode, .createSymbolicLink, .readSymbolicLink, .link, .rename, .unlink,
            .removeDirectory:
            return try callNames(operation, fileSystem)
        }
    }

    private func callContent(_ operation: FuzzOperation, _ fileSystem: Side.FileSystem) throws -> FuzzOutcome {
        switch operation {
        case .read(let slot, let count, let offset):
            let done = try fileSystem.read(
                slots[slot], into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset)
            return .content(
                count: done, hash: fuzzHash(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<done])))
        case .write(let slot, let count, let byte, let offset):
            let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
            fuzzFill(bytes, byte)
            return .number(
                Int64(try fileSystem.write(slots[slot], from: UnsafeRawBufferPointer(bytes), at: offset)))
        case .seek(let slot, let offset, let origin):
            // A directory's offset is an opaque cookie.
            guard try fileSystem.status(of: .descriptor(slots[slot])).type != .directory else { return .skipped }
            return .number(try fileSystem.seek(slots[slot], to: offset, from: origin))
        case .truncate(let target, let size):
            try fileSystem.truncate(reference(target), to: size)
        case .allocate(let slot, let offset, let length):
            try fileSystem.allocate(slots[slot], at: offset, length: length)
        case .synchronize(let slot, let level):
            try fileSystem.synchronize(slots[slot], level)
        case .lock(let slot, let mode):
            try fileSystem.lock(slots[slot], mode, waiting: false)
        case .list(let slot):
            return .names(
                try fileSystem.entries(of: slots[slot]).map { "\($0.name):\($0.type.rawValue)" }.sorted())
        default:
            return .skipped
        }
        return .done
    }

    private func callMapping(_ operation: FuzzOperation, _ fileSystem: Side.FileSystem) throws -> FuzzOutcome {
        switch operation {
        case .store(let slot, let count, let byte, let offset):
            guard let (mapped, range) = try reachable(slot, offset, count, fileSystem) else { return .skipped }
            let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[..<range.count])
            fuzzFill(bytes, byte)
            mapped.mapping.store(UnsafeRawBufferPointer(bytes), at: offset)
            // Whether a store counts as a modification depends on earlier stores and on write-back. Writing one byte
            // again makes a modification in any case.
            let last = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes).suffix(1))
            let place = mapped.offset + Int64(range.upperBound - 1)
            return .number(Int64(try fileSystem.write(mapped.descriptor, from: last, at: place)))
        case .load(let slot, let count, let offset):
            guard let (mapped, range) = try reachable(slot, offset, count, fileSystem) else { return .skipped }
            return .content(count: range.count, hash: mapped.mapping.withUnsafeBytes(range) { fuzzHash($0) })
        case .writeBack(let slot):
            guard let mapped = mappings[slot] else { return .skipped }
            try mapped.mapping.writeBack()
            return .done
        default:
            return .skipped
        }
    }

    /// The part of a range within a mapping and its file; nil if that is empty.
    private func reachable(
        _ slot: Int, _ offset: Int, _ count: Int, _ fileSystem: Side.FileSystem
    ) throws -> (Mapped, Range<Int>)? {
        guard let mapped = mappings[slot] else { return nil }
        let size = try fileSystem.status(of: .descriptor(mapped.descriptor)).sizeInBytes
        let end = min(mapped.mapping.count, Int(max(0, size - mapped.offset)), offset + count)
        return offset < end ? (mapped, offset..<end) : nil
    }

    private func callAttributes(_ operation: FuzzOperation, _ fileSystem: Side.FileSystem) throws -> FuzzOutcome {
        switch operation {
        case .status(let target):
            return .status(
                FuzzStatus(try fileSystem.status(of: reference(target)), comparesAccess: comparesAccess))
        case .setPermissions(let target, let permissions):
            try fileSystem.setPermissions(permissions, of: reference(target))
        case .setOwner(let target, let owner, let group):
            try fileSystem.setOwner(owner, group: group, of: reference(target))
        case .setTimes(let target, let accessed, let modified):
            try fileSystem.setTimes(accessed: accessed, modified: modified, of: reference(target))
        default:
            return .skipped
        }
        return .done
    }

    private func callNames(_ operation: FuzzOperation, _ fileSystem: Side.FileSystem) throws -> FuzzOutcome {
        switch operation {
        case .createDirectory(let place, let permissions):
            try fileSystem.createDirectory(place.path, at: base(place), permissions: permissions)
        case .createNode(let place, let type, let permissions):
            try fileSystem.createNode(
                place.path, at: base(place), type: type, permissions: permissions, deviceNumber: 0)
        case .createSymbolicLink(let place, let target):
            try fileSystem.createSymbolicLink(place.path, at: base(place), to: target)
        case .readSymbolicLink(let place):
            return .path(try fileSystem.readSymbolicLink(place.path, at: base(place)))
        case .link(let place, let new):
            try fileSystem.link(place.path, at: base(place), to: new.path, at: base(new))
        case .rename(let place, let new, let mode):
            try fileSystem.rename(place.path, at: base(place), to: new.path, at: base(new), mode)
        case .unlink(let place):
            try fileSystem.unlink(place.path, at: base(place))
        case .removeDirectory(let place):
            try fileSystem.removeDirectory(place.path, at: base(place))
        default:
            return .skipped
        }
        return .done
    }

    private func base(_ place: FuzzOperation.Place) -> Descriptor {
        place.base.map { slots[$0] } ?? .workingDirectory
    }

    private func reference(_ target: FuzzOperation.Target) -> FileReference {
        switch target {
        case .slot(let slot): .descriptor(slots[slot])
        case .place(let place, let followsLinks):
            .path(place.path, at: base(place), followsSymbolicLinks: followsLinks)
        }
    }
}

/// Bytes that vary with their position, so that mixed-up data is detected.
func fuzzFill(_ bytes: UnsafeMutableRawBufferPointer, _ first: UInt8) {
    let word = UInt64(first) &* 0x0103_0507_090B_0D0F
    var offset = 0
    while offset + 8 <= bytes.count {
        bytes.storeBytes(of: word &+ UInt64(offset), toByteOffset: offset, as: UInt64.self)
        offset += 8
    }
    while offset < bytes.count {
        bytes[offset] = first
        offset += 1
    }
}

func fuzzHash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var hash = 0x9E37_79B9_7F4A_7C15 ^ UInt64(bytes.count)
    var offset = 0
    while offset + 8 <= bytes.count {
        hash = (hash ^ bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 0xD6E8_FEB8_6659_FD93
        hash ^= hash >> 32
        offset += 8
    }
    while offset < bytes.count {
        hash = (hash ^ UInt64(bytes[offset])) &* 0xD6E8_FEB8_6659_FD93
        offset += 1
    }
    return hash
}
