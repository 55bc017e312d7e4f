public import SystemPackage

/// The maximum size of a content that is read as a whole; a larger file is `EFBIG`, because sparse files can have any
/// size.
package let maximumContentSizeInBytes = Int(Int32.max) - 1

/// Reading and writing whole contents: these loop over short transfers and `EINTR`.
extension POSIXFileSystem {
    /// Reads until `buffer` is full or the file ends, and returns how many bytes were read.
    public func readFully(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(FileSystemError) -> Int {
        try read(descriptor, into: buffer, at: offset, expecting: nil)
    }

    /// Reads from `offset` to the end of a file that should end after `expected` bytes.
    ///
    /// `buffer` holds at least one byte more, so a read that returns just the expected bytes has met the end, and a
    /// file that has grown fills more of the buffer.
    package func readToEnd(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64 = 0,
        expecting expected: Int
    ) throws(FileSystemError) -> Int {
        try read(descriptor, into: buffer, at: offset, expecting: expected)
    }

    private func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64, expecting expected: Int?
    ) throws(FileSystemError) -> Int {
        var done = 0
        while done < buffer.count, done != expected || done == 0 {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let position = offset + Int64(done)
            let count = try retryingInterrupts { () throws(FileSystemError) in
                try read(descriptor, into: rest, at: position)
            }
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Writes all of `buffer`, at `offset` or, if that is nil, at the file's own offset.
    ///
    /// If it throws, any part of the bytes may have been written.
    public func writeFully(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64? = nil
    ) throws(FileSystemError) {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeRawBufferPointer(rebasing: buffer[done...])
            let position = offset.map { $0 + Int64(done) }
            let count = try retryingInterrupts { () throws(FileSystemError) in
                try write(descriptor, from: rest, at: position)
            }
            guard count > 0 else { throw FileSystemError(.write, .ioError) }
            done += count
        }
    }

    /// Up to `count` bytes from `offset` on; fewer only at the end of the file.
    public func readBytes(
        of descriptor: Descriptor, at offset: Int64, count: Int
    ) throws(FileSystemError) -> [UInt8] {
        var failure: FileSystemError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            do throws(FileSystemError) {
                initializedCount = try readFully(descriptor, into: UnsafeMutableRawBufferPointer(buffer), at: offset)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Writes all of an array, at `offset` or, if that is nil, at the file's own offset; see `writeFully`.
    public func writeBytes(
        _ bytes: [UInt8], to descriptor: Descriptor, at offset: Int64? = nil
    ) throws(FileSystemError) {
        let outcome = bytes.withUnsafeBytes { buffer -> Result<Void, FileSystemError> in
            do throws(FileSystemError) {
                return .success(try writeFully(descriptor, from: buffer, at: offset))
            } catch {
                return .failure(error)
            }
        }
        try outcome.get()
    }

    /// The whole content of an open regular file, independent of its offset.
    ///
    /// - Parameters:
    ///   - descriptor: A file open for reading.
    ///   - maximumSizeInBytes: The size above which the call fails with `EFBIG`; at most 2 GiB.
    /// - Returns: All bytes from the first to the last at the time of the last read.
    /// - Throws: ``FileSystemError`` of the read that failed; `EISDIR` for a directory, `ENOTSUP` for a FIFO, a socket
    ///   or a device, whose content may have no end.
    public func readContents(
        of descriptor: Descriptor, maximumSizeInBytes: Int = .max
    ) throws(FileSystemError) -> [UInt8] {
        let maximum = min(maximumSizeInBytes, maximumContentSizeInBytes)
        let status = try status(of: .descriptor(descriptor))
        guard status.type == .regular else {
            throw FileSystemError(.read, status.type == .directory ? .isDirectory : .notSupported)
        }
        let expected = status.sizeInBytes
        guard expected <= maximum else { throw FileSystemError(.read, .fileTooLarge) }
        var capacity = max(Int(expected) + 1, 512)
        var content: [UInt8] = []
        while true {
            let done = content.count
            var failure: FileSystemError?
            var readCount = 0
            content = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, initializedCount in
                content.withUnsafeBytes { UnsafeMutableRawBufferPointer(buffer).copyMemory(from: $0) }
                do throws(FileSystemError) {
                    let rest = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[done...])
                    readCount = try readToEnd(
                        descriptor, into: rest, at: Int64(done), expecting: Int(expected) - done)
                } catch {
                    failure = error
                }
                initializedCount = done + readCount
            }
            if let failure { throw failure }
            if content.count < capacity { return content }
            guard content.count <= maximum else { throw FileSystemError(.read, .fileTooLarge) }
            capacity = content.count < maximum / 2 ? capacity * 2 : maximum + 1
        }
    }

    /// The whole content of the regular file at `path`; anything else is refused without waiting for data.
    public func readFile(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, resolution: PathResolution = [],
        maximumSizeInBytes: Int = .max
    ) throws(FileSystemError) -> [UInt8] {
        let descriptor = try retryingInterrupts { () throws(FileSystemError) in
            // A FIFO without a writer would block.
            try open(path, at: directory, .readOnly, options: [.nonBlocking], permissions: [], resolution: resolution)
        }
        return try withPathInErrors(path) { () throws(FileSystemError) in
            try closing(descriptor) { () throws(FileSystemError) in
                try readContents(of: descriptor, maximumSizeInBytes: maximumSizeInBytes)
            }
        }
    }

    /// Calls `body` again while a signal interrupts it.
    @inlinable public func retryingInterrupts<Result>(
        _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        while true {
            do {
                return try body()
            } catch  where error.errno == .interrupted {
                continue
            }
        }
    }

    /// Calls `body` and adds a path to an error that has only a descriptor.
    @inlinable public func withPathInErrors<Result>(
        _ path: POSIXPath, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        do {
            return try body()
        } catch {
            var named = error
            if named.path == nil { named.path = path }
            throw named
        }
    }
}
