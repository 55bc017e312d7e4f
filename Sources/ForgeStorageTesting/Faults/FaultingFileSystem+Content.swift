public import ForgeFileSystem
public import SystemPackage

// Memory safety: Buffers are passed on for the time of the call, and every part is cut with a checked range. The
// address of a mapping is valid for its lifetime.

extension FaultingFileSystem {
    public func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try perform(.read) { state, call in
            call.setTarget(descriptor, state)
            call.record.offset = offset
            call.record.count = Int64(buffer.count)
            call.target.readByteCount = buffer.count
        } _: { (state, call) throws(FileSystemError) in
            let position = call.decision.corruptions.isEmpty ? offset : offset ?? currentOffset(descriptor)
            let limited = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(call.limit ?? buffer.count))
            let count = try unsafe base.read(descriptor, into: limited, at: offset)
            call.record.transferredCount = count
            if let position {
                let bytes = unsafe UnsafeMutableRawBufferPointer(rebasing: limited.prefix(count))
                unsafe corrupt(bytes, at: position, of: descriptor, &call, state)
            }
            return count
        }
    }

    public func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try perform(.write) { state, call in
            call.setTarget(descriptor, state)
            call.record.offset = offset
            call.record.count = Int64(buffer.count)
            call.target.mutates = true
            call.target.storedByteCount = buffer.count
        } _: { (state, call) throws(FileSystemError) in
            let size = lookUp(descriptor)?.sizeInBytes
            let position = offset ?? currentOffset(descriptor)
            let limited = unsafe UnsafeRawBufferPointer(rebasing: buffer.prefix(call.limit ?? buffer.count))
            // A range past the largest offset is refused by the base.
            let (end, overflows) = position.addingReportingOverflow(Int64(limited.count))
            if !overflows { keepStaleSectors(call, position..<end, &state) }
            let count = try unsafe base.write(descriptor, from: limited, at: offset)
            call.record.sizeBefore = size
            call.record.position = position
            if call.file?.appends == true, let grown = lookUp(descriptor)?.sizeInBytes, grown != size {
                call.record.position = grown - Int64(count)
            }
            call.record.transferredCount = count
            return count
        }
    }

    /// The call is one on the target. Corruptions of the source apply to its reads only.
    public func copyRange(
        from source: Descriptor, at sourceOffset: Int64, to target: Descriptor, at targetOffset: Int64, count: Int
    ) throws(FileSystemError) -> Int {
        try perform(.copyRange) { state, call in
            call.setTarget(target, state)
            call.record.offset = targetOffset
            call.record.count = Int64(count)
            call.record.detail = "from \(sourceOffset)"
            call.target.mutates = true
            call.target.storedByteCount = count
        } _: { (state, call) throws(FileSystemError) in
            let size = lookUp(target)?.sizeInBytes
            let limited = min(count, call.limit ?? count)
            let (end, overflows) = targetOffset.addingReportingOverflow(Int64(limited))
            if !overflows, end > targetOffset { keepStaleSectors(call, targetOffset..<end, &state) }
            let copied = try base.copyRange(
                from: source, at: sourceOffset, to: target, at: targetOffset, count: limited)
            call.record.sizeBefore = size
            call.record.position = targetOffset
            call.record.transferredCount = copied
            return copied
        }
    }

    public func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try perform(.seek) { state, call in
            call.setTarget(descriptor, state)
            call.record.offset = offset
            switch origin {
            case .start: call.record.detail = "start"
            case .current: call.record.detail = "current"
            case .end: call.record.detail = "end"
            default: call.record.detail = "origin \(origin.rawValue)"
            }
        } _: { (_, call) throws(FileSystemError) in
            let position = try base.seek(descriptor, to: offset, from: origin)
            call.record.outcome = .success(String(position))
            return position
        }
    }

    public func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try perform(.truncate) { state, call in
            setTarget(of: &call, file, state)
            call.record.count = sizeInBytes
            call.record.newSize = sizeInBytes
            call.target.mutates = true
        } _: { (state, call) throws(FileSystemError) in
            if case .descriptor(let descriptor) = file { call.record.sizeBefore = lookUp(descriptor)?.sizeInBytes }
            try base.truncate(file, to: sizeInBytes)
        }
    }

    public func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try perform(.allocate) { state, call in
            call.setTarget(descriptor, state)
            call.record.offset = offset
            call.record.count = length
            call.target.mutates = true
            call.target.storedByteCount = Int(clamping: length)
        } _: { (_, _) throws(FileSystemError) in
            try base.allocate(descriptor, at: offset, length: length)
        }
    }

    public func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try perform(.synchronize) { state, call in
            call.setTarget(descriptor, state)
            call.record.detail = "\(level)"
        } _: { (state, call) throws(FileSystemError) in
            call.record.sizeBefore = lookUp(descriptor)?.sizeInBytes
            if case .failSynchronization(let errno, let audience) = call.decision.verdict {
                // Failed before the effect, because none of it may reach the device.
                call.decision.verdict = nil
                call.record.isForwarded = false
                if audience == .openFiles, let file = call.file {
                    state.plantError(errno, in: file.identity, except: file.openFile)
                }
                guard audience != .unreported else { return }
                // The data that the failed call covers stays undetermined, even after later successes.
                if let memory = base as? InMemoryFileSystem {
                    try memory.recordFailedSynchronization(of: descriptor, level)
                }
                throw failure(errno, call)
            } else if let file = call.file, let errno = state.pendingErrors.removeValue(forKey: file.openFile) {
                call.record.isForwarded = false
                call.record.faults.append("\(errno.name) of an earlier write-back")
                throw failure(errno, call)
            } else {
                try base.synchronize(descriptor, level)
            }
        }
    }

    /// The file offset, or 0 if the file has none.
    private func currentOffset(_ descriptor: Descriptor) -> Int64 {
        do {
            return try base.seek(descriptor, to: 0, from: .current)
        } catch {
            return 0
        }
    }
}

// MARK: Corruption

extension FaultingFileSystem {
    /// The bytes of a sector; nil past the largest offset.
    private static func range(of sector: Int64) -> Range<Int64>? {
        let size = FileCorruption.sectorSizeInBytes
        let (start, overflows) = sector.multipliedReportingOverflow(by: size)
        return overflows || start > .max - size ? nil : start..<start + size
    }

    private func corrupt(
        _ bytes: UnsafeMutableRawBufferPointer, at position: Int64, of descriptor: Descriptor, _ call: inout Call,
        _ state: State
    ) {
        for (rule, corruption) in call.decision.corruptions {
            let changed: Bool
            switch corruption {
            case .flippedBit(let offset, let bit):
                changed = offset >= position && offset < position + Int64(bytes.count)
                if changed { unsafe bytes[Int(offset - position)] ^= 1 << UInt8(bit & 7) }
            case .zeroedSector(let sector):
                changed = unsafe overlay([], sector, on: bytes, at: position)
            case .staleSector(let sector):
                guard let old = call.file.flatMap({ state.staleSectors[$0.identity]?[sector] }) else { continue }
                changed = unsafe overlay(old, sector, on: bytes, at: position)
            case .misdirectedSector(let sector, from: let other):
                changed = unsafe overlay(self.sector(other, of: descriptor), sector, on: bytes, at: position)
            }
            guard changed else { continue }
            plan.corruptionFired(rule)
            call.record.faults.append(corruption.description)
        }
    }

    /// Overlays a sector on the part of the data that was read from it, padded with zeros; returns whether they
    /// overlap.
    private func overlay(
        _ content: [UInt8], _ sector: Int64, on bytes: UnsafeMutableRawBufferPointer, at position: Int64
    ) -> Bool {
        guard let whole = Self.range(of: sector) else { return false }
        let range = whole.clamped(to: position..<position + Int64(bytes.count))
        for place in range {
            let index = Int(place - whole.lowerBound)
            unsafe bytes[Int(place - position)] = index < content.count ? content[index] : 0
        }
        return !range.isEmpty
    }

    /// The content of a sector of an open file, as far as it can be read.
    private func sector(_ sector: Int64, of descriptor: Descriptor) -> [UInt8] {
        guard let range = Self.range(of: sector) else { return [] }
        var content = [UInt8](repeating: 0, count: range.count)
        do {
            let count = try unsafe content.withUnsafeMutableBytes { buffer in
                try unsafe base.readFully(descriptor, into: buffer, at: range.lowerBound)
            }
            return Array(content[..<count])
        } catch {
            return []
        }
    }

    /// Saves the sectors that a write changes, if a rule returns their old content.
    private func keepStaleSectors(_ call: Call, _ range: Range<Int64>, _ state: inout State) {
        guard let file = call.file else { return }
        for sector in plan.staleSectors(call.target) {
            guard Self.range(of: sector)?.overlaps(range) == true else { continue }
            // The descriptor may not be open for reading.
            guard let reader = openForReading(file) else { continue }
            state.staleSectors[file.identity, default: [:]][sector] = self.sector(sector, of: reader)
            do { try base.close(reader) } catch _ {}
        }
    }

    private func openForReading(_ file: OpenedFile) -> Descriptor? {
        do {
            let reader = try base.open(file.path)
            if let status = lookUp(reader), InodeIdentity(status) == file.identity { return reader }
            try base.close(reader)
        } catch {}
        return nil
    }
}

extension FaultingFileSystem {
    /// Maps part of a file. Storing and writing back are calls of their own, with the path and inode of the file.
    ///
    /// A store cannot fail: only delays and crashes of rules that name the operation apply to it. Stores after a crash
    /// are lost. Loads are not calls.
    public func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        try perform(.map) { state, call in
            call.setTarget(descriptor, state)
            call.record.offset = offset
            call.record.count = Int64(count)
            call.target.mutates = true
        } _: { (state, call) throws(FileSystemError) in
            let mapping = try base.map(descriptor, at: offset, count: count)
            let owner = MappingOwner(fileSystem: self, file: call.file, offset: offset, process: state.processCount)
            return unsafe FileMapping(
                watching: mapping, load: nil, store: { unsafe owner.store($1, at: $2, in: $0) },
                writeBack: { (mapping) throws(FileSystemError) in try owner.writeBack(mapping) })
        }
    }
}

/// The process and file of a mapping.
private struct MappingOwner: Sendable {
    let fileSystem: FaultingFileSystem
    let file: FaultingFileSystem.OpenedFile?
    let offset: Int64
    let process: Int

    func store(_ bytes: UnsafeRawBufferPointer, at place: Int, in mapping: FileMapping) {
        do {
            try fileSystem.perform(.store) { state, call in
                setTarget(of: &call, state)
                call.record.offset = offset + Int64(place)
                call.record.count = Int64(bytes.count)
                call.record.position = call.record.offset
                call.target.mutates = true
            } _: { (state, call) throws(FileSystemError) in
                try requireProcess(.store, state)
                unsafe mapping.store(bytes, at: place)
            }
        } catch {
            // A store fails only after a crash, when no caller is left.
        }
    }

    func writeBack(_ mapping: FileMapping) throws(FileSystemError) {
        try fileSystem.perform(.writeBack) { state, call in
            setTarget(of: &call, state)
            call.record.offset = offset
            call.record.count = Int64(mapping.count)
        } _: { (state, call) throws(FileSystemError) in
            try requireProcess(.writeBack, state)
            try mapping.writeBack()
        }
    }

    /// Throws if the process that made the mapping has crashed.
    private func requireProcess(
        _ operation: FileSystemOperation, _ state: FaultingFileSystem.State
    ) throws(FileSystemError) {
        guard state.processCount == process else {
            throw FileSystemError(operation, .noMemory, underlying: ProcessCrashed())
        }
    }

    private func setTarget(of call: inout FaultingFileSystem.Call, _ state: FaultingFileSystem.State) {
        guard let file else { return }
        // The file may have been renamed; the table of open files has its current path.
        let path = state.files.values.first { $0.openFile == file.openFile }?.path ?? file.path
        call.file = file
        call.record.path = path
        call.record.inode = file.inode
        call.record.isRegular = file.isRegular
        call.target.paths.append(path)
        call.target.inode = file.identity.inode
    }
}

/// Support for wrapping mappings.
extension FileMapping {
    /// Wraps a mapping and redirects some of its operations; nil forwards to the base.
    ///
    /// The bytes returned for a range must keep their address for the lifetime of the mapping.
    package convenience init(
        watching base: FileMapping,
        load: (@Sendable (FileMapping, Range<Int>) -> UnsafeRawBufferPointer)? = nil,
        store: (@Sendable (FileMapping, UnsafeRawBufferPointer, Int) -> Void)? = nil,
        writeBack: (@Sendable (FileMapping) throws(FileSystemError) -> Void)? = nil
    ) {
        unsafe self.init(WatchedMemory(base, load: load, store: store, writeBack: writeBack), count: base.count)
    }

    /// The bytes of a range, valid while the mapping lives.
    package func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
        unsafe withUnsafeBytes(range) { unsafe $0 }
    }
}

@safe
private final class WatchedMemory: MappedMemory {
    private let base: FileMapping
    private let load: (@Sendable (FileMapping, Range<Int>) -> UnsafeRawBufferPointer)?
    private let storing: (@Sendable (FileMapping, UnsafeRawBufferPointer, Int) -> Void)?
    private let writingBack: (@Sendable (FileMapping) throws(FileSystemError) -> Void)?

    init(
        _ base: FileMapping, load: (@Sendable (FileMapping, Range<Int>) -> UnsafeRawBufferPointer)?,
        store: (@Sendable (FileMapping, UnsafeRawBufferPointer, Int) -> Void)?,
        writeBack: (@Sendable (FileMapping) throws(FileSystemError) -> Void)?
    ) {
        self.base = base
        unsafe self.load = load
        unsafe storing = store
        writingBack = writeBack
    }

    func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
        unsafe load?(base, range) ?? base.bytes(in: range)
    }

    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard let storing = unsafe storing else { return unsafe base.store(bytes, at: offset) }
        unsafe storing(base, bytes, offset)
    }

    var hasFaulted: Bool { base.hasFaulted }

    func writeBack() throws(FileSystemError) {
        guard let writingBack else { return try base.writeBack() }
        try writingBack(base)
    }
}
