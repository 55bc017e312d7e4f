package import Foundation
public import SystemPackage

// Memory safety: Buffers become spans and back here alone. A file system writes only to the part of a buffer that it
// is given, and returns how many of its first bytes it has written; only these count as initialised.

/// The maximum size of a content that is read as a whole; a larger file is `EFBIG`, because sparse files can have any
/// size.
package let maximumContentSizeInBytes = Int(Int32.max) - 1

/// Reading and writing whole contents: these loop over short transfers and `EINTR`.
extension POSIXFileSystem {
    /// Reads until `buffer` is full or the file ends, and returns how many bytes were read.
    public func readFully(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(FileSystemError) -> Int {
        try unsafe read(descriptor, into: buffer, at: offset, expecting: nil)
    }

    /// Appends up to `limit` bytes to a buffer, until it is full or the file ends, and returns how many were read.
    ///
    /// For a file that should end after `expected` bytes, the buffer has room for one more at least: a read that
    /// returns just the expected bytes has met the end, and a file that has grown fills more of the buffer.
    package func readFully(
        _ descriptor: Descriptor, into buffer: inout OutputRawSpan, upTo limit: Int = .max, at offset: Int64,
        expecting expected: Int? = nil
    ) throws(FileSystemError) -> Int {
        try unsafe buffer.withUnsafeMutableBytes { (memory, count) throws(FileSystemError) -> Int in
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[count...].prefix(limit))
            let done = try unsafe read(descriptor, into: rest, at: offset, expecting: expected)
            count += done
            return done
        }
    }

    /// Reads up to `count` bytes into the beginning of an array; fewer only at the end of the file.
    package func readFully(
        _ descriptor: Descriptor, into bytes: inout [UInt8], count: Int, at offset: Int64
    ) throws(FileSystemError) -> Int {
        let outcome = unsafe bytes.withUnsafeMutableBytes { bytes -> Swift.Result<Int, FileSystemError> in
            do throws(FileSystemError) {
                let part = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[..<count])
                return .success(try unsafe readFully(descriptor, into: part, at: offset))
            } catch {
                return .failure(error)
            }
        }
        return try outcome.get()
    }

    private func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64, expecting expected: Int?
    ) throws(FileSystemError) -> Int {
        var done = 0
        while done < buffer.count, done != expected || done == 0 {
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let position = offset + Int64(done)
            let count = try retryingInterrupts { () throws(FileSystemError) in
                try unsafe read(descriptor, into: rest, at: position)
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
            let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[done...])
            let position = offset.map { $0 + Int64(done) }
            let count = try retryingInterrupts { () throws(FileSystemError) in
                try unsafe write(descriptor, from: rest, at: position)
            }
            guard count > 0 else { throw FileSystemError(.write, .ioError) }
            done += count
        }
    }

    /// One call of ``read(_:into:at:)`` that appends to a buffer.
    package func read(
        _ descriptor: Descriptor, into buffer: inout OutputRawSpan, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try unsafe buffer.withUnsafeMutableBytes { (memory, count) throws(FileSystemError) -> Int in
            let done = try unsafe read(
                descriptor, into: UnsafeMutableRawBufferPointer(rebasing: memory[count...]), at: offset)
            count += done
            return done
        }
    }

    /// One call of ``write(_:from:at:)``.
    package func write(
        _ descriptor: Descriptor, from bytes: Span<UInt8>, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try unsafe bytes.withUnsafeBytes { (bytes) throws(FileSystemError) in
            try unsafe write(descriptor, from: bytes, at: offset)
        }
    }

    /// Writes all bytes, at `offset` or, if that is nil, at the file's own offset; see above.
    package func writeFully(
        _ descriptor: Descriptor, from bytes: RawSpan, at offset: Int64? = nil
    ) throws(FileSystemError) {
        try unsafe bytes.withUnsafeBytes { (bytes) throws(FileSystemError) in
            try unsafe writeFully(descriptor, from: bytes, at: offset)
        }
    }

    /// Writes all bytes; see above.
    package func writeFully(
        _ descriptor: Descriptor, from bytes: Span<UInt8>, at offset: Int64? = nil
    ) throws(FileSystemError) {
        try unsafe writeFully(descriptor, from: bytes.bytes, at: offset)
    }

    /// Up to `count` bytes from `offset` on; fewer only at the end of the file.
    public func readBytes(
        of descriptor: Descriptor, at offset: Int64, count: Int
    ) throws(FileSystemError) -> [UInt8] {
        try [UInt8](capacity: count) { (buffer) throws(FileSystemError) in
            _ = try readFully(descriptor, into: &buffer, at: offset)
        }
    }

    /// Writes all of an array, at `offset` or, if that is nil, at the file's own offset; see `writeFully`.
    public func writeBytes(
        _ bytes: [UInt8], to descriptor: Descriptor, at offset: Int64? = nil
    ) throws(FileSystemError) {
        try writeFully(descriptor, from: bytes.span, at: offset)
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
            let rest = try [UInt8](capacity: capacity - done) { (buffer) throws(FileSystemError) in
                _ = try readFully(descriptor, into: &buffer, at: Int64(done), expecting: Int(expected) - done)
            }
            content = content.isEmpty ? rest : content + rest
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
        // A FIFO without a writer would block.
        let descriptor = try openRetrying(path, at: directory, options: [.nonBlocking], resolution: resolution)
        do throws(FileSystemError) {
            return try closing(descriptor) { () throws(FileSystemError) in
                try readContents(of: descriptor, maximumSizeInBytes: maximumSizeInBytes)
            }
        } catch {
            throw error.named(path)
        }
    }

    /// The status of the file at `path`, or of the link itself if links are not followed.
    @inlinable public func status(
        _ path: POSIXPath, at directory: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = true
    ) throws(FileSystemError) -> FileStatus {
        try status(of: .path(path, at: directory, followsSymbolicLinks: followsSymbolicLinks))
    }

    /// Closes a descriptor that was not written to, ignoring an error of closing it.
    package func discard(_ descriptor: Descriptor) {
        do { try close(descriptor) } catch _ {}
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
}

extension [UInt8] {
    /// A copy of the bytes.
    package init(copying bytes: RawSpan) { self = unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) } }

    /// The bytes that `fill` appends to a buffer of a capacity.
    package init<Failure: Error>(
        capacity: Int, filling fill: (inout OutputRawSpan) throws(Failure) -> Void
    ) throws(Failure) {
        var failure: Failure?
        unsafe self.init(unsafeUninitializedCapacity: capacity) { buffer, count in
            let memory = UnsafeMutableRawBufferPointer(buffer)
            var output = unsafe OutputRawSpan(buffer: memory, initializedCount: 0)
            do throws(Failure) {
                try fill(&output)
                count = unsafe output.finalize(for: memory)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }
}

extension Data {
    /// The bytes that `fill` appends to a buffer of a capacity, without a copy; nil if there is no memory for it.
    package init?<Failure: Error>(
        capacity: Int, filling fill: (inout OutputRawSpan) throws(Failure) -> Void
    ) throws(Failure) {
        guard let start = unsafe malloc(Swift.max(capacity, 1)) else { return nil }
        let memory = unsafe UnsafeMutableRawBufferPointer(start: start, count: capacity)
        var output = unsafe OutputRawSpan(buffer: memory, initializedCount: 0)
        do throws(Failure) {
            try fill(&output)
        } catch {
            unsafe free(start)
            throw error
        }
        unsafe self.init(bytesNoCopy: start, count: output.finalize(for: memory), deallocator: .free)
    }
}

/// Calls `body` with the bytes of `data`; `Data` itself does not support typed errors.
package func withBytes<Result>(
    of data: Data, _ body: (RawSpan) throws(FileSystemError) -> Result
) throws(FileSystemError) -> Result {
    let outcome = unsafe data.withUnsafeBytes { bytes -> Swift.Result<Result, FileSystemError> in
        do throws(FileSystemError) {
            return .success(try unsafe body(bytes.bytes))
        } catch {
            return .failure(error)
        }
    }
    return try outcome.get()
}

extension POSIXFileSystem {
    /// The first offset from `offset` on that is not in a hole; nil if the rest of the file is one (`SEEK_DATA` of
    /// `lseek(2)`).
    ///
    /// On a file system that does not report holes this is `offset`. The call moves the file's offset.
    package func nextData(of descriptor: Descriptor, at offset: Int64) throws(FileSystemError) -> Int64? {
        do {
            return try seek(descriptor, to: offset, from: .data)
        } catch  where error.errno == .noSuchAddressOrDevice {
            return nil
        } catch  where error.errno.isMissingFeature {
            return offset
        }
    }

    /// The first offset from `offset` on that is in a hole, or the end of the file (`SEEK_HOLE` of `lseek(2)`).
    ///
    /// On a file system that does not report holes this is the maximum. The call moves the file's offset.
    package func nextHole(of descriptor: Descriptor, at offset: Int64) throws(FileSystemError) -> Int64 {
        do {
            return try seek(descriptor, to: offset, from: .hole)
        } catch  where error.errno.isMissingFeature {
            return .max
        }
    }
}

extension FileDescriptor.SeekOrigin {
    #if os(Linux)
    /// `SEEK_DATA`, which swift-system has for Darwin only.
    package static let data = FileDescriptor.SeekOrigin(rawValue: 3)

    /// `SEEK_HOLE`.
    package static let hole = FileDescriptor.SeekOrigin(rawValue: 4)
    #else
    /// `SEEK_DATA`.
    package static let data = FileDescriptor.SeekOrigin.nextData

    /// `SEEK_HOLE`.
    package static let hole = FileDescriptor.SeekOrigin.nextHole
    #endif
}

/// The attributes that a store keeps with a file: extended attributes whose names begin with `forgestorage.`.
///
/// Extended attributes with other names belong to other programs.
package enum FileAttributes {
    /// The maximum size of all names and values in UTF-8. With the maximum number they fit into a block of ext4 of 4
    /// KiB, which takes up to 35 bytes more for each.
    package static let maximumSizeInBytes = 2_048

    /// The maximum number of attributes.
    package static let maximumCount = 50

    private static let maximumNameLength = 64
    fileprivate static let prefix = "forgestorage."

    /// Whether a name has 1 to 64 bytes of `a`–`z`, `0`–`9`, `-`, `_` and `.`, and begins with a letter or a digit.
    package static func isName(_ name: some StringProtocol) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= maximumNameLength else { return false }
        return isAlphanumeric(first) && name.utf8.allSatisfy { isAlphanumeric($0) || "-_.".utf8.contains($0) }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}

extension POSIXFileSystem {
    /// The attributes of an open file; none where the file system has no extended attributes.
    ///
    /// - Throws: `EFBIG` if they exceed ``FileAttributes/maximumSizeInBytes``, because another program has set them.
    package func fileAttributes(of file: Descriptor) throws(FileSystemError) -> [String: [UInt8]] {
        let names: [String]
        do throws(FileSystemError) {
            names = try extendedAttributeNames(of: file)
        } catch  where error.errno == .notSupported || error.errno == .noFunction {
            return [:]
        }
        var attributes: [String: [UInt8]] = [:]
        var size = 0
        for full in names {
            guard let name = full.droppingBytePrefix(FileAttributes.prefix) else { continue }
            // Nil: removed since the names were read.
            guard FileAttributes.isName(name), let value = try extendedAttribute(full, of: file) else { continue }
            attributes[name] = value
            size += name.utf8.count + value.count
            guard size <= FileAttributes.maximumSizeInBytes else {
                throw FileSystemError(.readExtendedAttribute, .fileTooLarge)
            }
        }
        return attributes
    }

    /// Sets attributes of a new file; calls nothing if there are none.
    package func setFileAttributes(_ attributes: [String: [UInt8]], of file: Descriptor) throws(FileSystemError) {
        // Sorted, so that every run makes the same calls.
        for (name, value) in attributes.sorted(by: { $0.key < $1.key }) {
            try setExtendedAttribute(FileAttributes.prefix + name, to: value, of: file)
        }
    }
}

/// The extended attribute that excludes a file, or a directory with its whole tree, from backups of Apple's systems.
package enum BackupExclusion {
    /// The attribute that `URLResourceValues.isExcludedFromBackup` sets and reads.
    package static let attribute = "com.apple.metadata:com_apple_backup_excludeItem"

    /// A binary property list of one string, as all attributes of the prefix `com.apple.metadata:` are.
    package static let value: [UInt8] = {
        let text = Array("com.apple.backupd".utf8)
        let header = Array("bplist00".utf8)
        // A string of ASCII with 15 characters or more: the marker, its length as an integer of one byte, the text.
        let object = [0x5f, 0x10, UInt8(text.count)] + text
        let objectOffset = UInt8(header.count)
        // Sizes of offsets and references; the number of objects, the first object and the place of the offsets.
        let trailer: [UInt8] = [0, 0, 0, 0, 0, 0, 1, 1]
        let numbers = [1, 0, objectOffset + UInt8(object.count)].flatMap { [0, 0, 0, 0, 0, 0, 0, $0] as [UInt8] }
        return header + object + [objectOffset] + trailer + numbers
    }()
}

extension POSIXFileSystem {
    /// Excludes a directory with its whole tree, or a file, from backups of Apple's systems, as
    /// `URLResourceValues.isExcludedFromBackup` does.
    ///
    /// The exclusion is an attribute of the file: a save that replaces the file loses it, so exclude its directory. It is
    /// durable once the directory has been flushed. No backup of another system reads it, and a file system without
    /// extended attributes is left unchanged.
    ///
    /// - Throws: ``FileSystemError`` if the file cannot be opened, or the attribute cannot be set for another reason.
    public func excludeFromBackup(_ path: POSIXPath) throws(FileSystemError) {
        let file = try open(path, options: [.nonBlocking])
        try closing(file) { () throws(FileSystemError) in try excludeFromBackup(file) }
    }

    /// Excludes an open directory or file.
    package func excludeFromBackup(_ file: Descriptor) throws(FileSystemError) {
        do throws(FileSystemError) {
            try setExtendedAttribute(BackupExclusion.attribute, to: BackupExclusion.value, of: file)
        } catch {
            guard error.errno == .notSupported || error.errno == .noFunction else { throw error }
        }
    }
}
