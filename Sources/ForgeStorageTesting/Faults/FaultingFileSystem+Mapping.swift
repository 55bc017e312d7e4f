public import ForgeFileSystem
import SystemPackage

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
            return FileMapping(
                watching: mapping, load: nil, store: { owner.store($1, at: $2, in: $0) },
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
                mapping.store(bytes, at: place)
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
