public import SystemPackage

extension InMemoryFileSystem {
    public func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try perform(.read) { (state) throws(Errno) in try state.read(descriptor, into: buffer, at: offset) }
    }

    public func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try perform(.write) { (state) throws(Errno) in try state.write(descriptor, from: buffer, at: offset) }
    }

    public func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try perform(.seek) { (state) throws(Errno) in try state.seek(descriptor, to: offset, from: origin) }
    }

    public func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try perform(.truncate, file.path) { (state) throws(Errno) in try state.truncate(file, to: sizeInBytes) }
    }

    public func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try perform(.allocate) { (state) throws(Errno) in
            try state.allocate(descriptor, at: offset, length: length)
        }
    }

    public func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try perform(.synchronize) { (state) throws(Errno) in try state.synchronize(descriptor, level) }
    }
}
