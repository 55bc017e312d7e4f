import ForgeFileSystem
import SystemPackage
import Testing

/// In-memory FIFOs where they differ from the kernel's or cannot be tested there: no blocking, no signals.
struct PipeTests {
    private let fileSystem = InMemoryFileSystem()

    init() throws {
        try fileSystem.createNode(
            "/p", at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
    }

    @Test("opening a FIFO without the other end fails instead of blocking")
    func opening() throws {
        expectErrno(.noSuchAddressOrDevice) { _ = try fileSystem.open("/p", .readOnly) }
        expectErrno(.noSuchAddressOrDevice) { _ = try fileSystem.open("/p", .writeOnly) }
        let both = try fileSystem.open("/p", .readWrite)
        let reader = try fileSystem.open("/p", .readOnly)
        let writer = try fileSystem.open("/p", .writeOnly)
        for descriptor in [both, reader, writer] { try fileSystem.close(descriptor) }
        expectErrno(.noSuchAddressOrDevice) { _ = try fileSystem.open("/p", .readOnly) }
    }

    @Test("a write without a reader fails and changes no time")
    func brokenPipe() throws {
        let reader = try fileSystem.open("/p", .readOnly, options: [.nonBlocking])
        let writer = try fileSystem.open("/p", .writeOnly)
        try fileSystem.close(reader)
        let before = try fileSystem.status(of: .descriptor(writer))
        expectErrno(.brokenPipe) { _ = try write(1, to: writer) }
        #expect(try fileSystem.status(of: .descriptor(writer)) == before)
    }

    @Test("up to 4096 bytes are written completely or not at all, more than that as far as there are pages")
    func room() throws {
        let both = try fileSystem.open("/p", .readWrite)
        #expect(try write(65_000, to: both) == 65_000)
        expectErrno(.resourceTemporarilyUnavailable) { _ = try write(4096, to: both) }
        // The odd byte, for which the last page has space.
        #expect(try write(4097, to: both) == 1)
        expectErrno(.resourceTemporarilyUnavailable) { _ = try write(5000, to: both) }
        #expect(try write(0, to: both) == 0)
        #expect(try fileSystem.status("/p").sizeInBytes == 0)
        #expect(try fileSystem.usage().sizeInBytes == 0)
    }

    @Test("a write changes the times of a FIFO")
    func times() throws {
        let both = try fileSystem.open("/p", .readWrite)
        let before = try fileSystem.status("/p")
        _ = try write(1, to: both)
        let after = try fileSystem.status("/p")
        #expect(after.modified > before.modified)
        #expect(after.changed == after.modified)
    }

    @Test("a FIFO has no offset to write at, no space to allocate, nothing to synchronise")
    func refused() throws {
        let both = try fileSystem.open("/p", .readWrite)
        expectErrno(.illegalSeek) { _ = try write(1, to: both, at: 0) }
        expectErrno(.illegalSeek) { try fileSystem.allocate(both, at: 0, length: 1) }
        expectErrno(.invalidArgument) { try fileSystem.truncate(.descriptor(both), to: 0) }
        expectErrno(.invalidArgument) { try fileSystem.synchronize(both, .full) }
    }

    /// Writes that many zeros and returns how many were accepted.
    private func write(_ count: Int, to descriptor: Descriptor, at offset: Int64? = nil) throws -> Int {
        try [UInt8](repeating: 0, count: count).withUnsafeBytes { bytes in
            try fileSystem.write(descriptor, from: bytes, at: offset)
        }
    }
}
