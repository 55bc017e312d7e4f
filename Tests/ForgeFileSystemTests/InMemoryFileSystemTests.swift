import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("The in-memory file system, beyond the conformance checks")
struct InMemoryFileSystemTests {
    private let fileSystem = InMemoryFileSystem()
    private let file = URL(filePath: "/file")

    @Test("a file system that starts with an image gives no file the number of one that was removed before")
    func numbers() throws {
        try fileSystem.write(Data(), to: file)
        let removed = try fileSystem.identity(of: .path("/file"))
        try fileSystem.unlink("/file")
        let restored = InMemoryFileSystem(fileSystem.image)
        try restored.write(Data(), to: file)
        #expect(try restored.identity(of: .path("/file")) > removed)
    }

    // MARK: Failures on demand

    @Test("a write error is thrown unchanged and loses no data")
    func writeError() throws {
        try fileSystem.write(Data("old".utf8), to: file)
        fileSystem.writeError = NSError(domain: "DiskFull", code: 507)
        let error = #expect(throws: (any Error).self) { try fileSystem.write(Data("new".utf8), to: file) }
        #expect((error as NSError?)?.code == 507)
        #expect(try fileSystem.read(from: file) == Data("old".utf8))
        fileSystem.writeError = nil
        try fileSystem.write(Data("new".utf8), to: file)
        #expect(try fileSystem.read(from: file) == Data("new".utf8))
    }

    @Test("`writeError` fails every call that stores content")
    func writeErrorBelow() throws {
        try fileSystem.write(Data("old".utf8), to: file)
        let descriptor = try fileSystem.open("/file", .readWrite)
        fileSystem.writeError = NSError(domain: "DiskFull", code: 507)
        let calls: [() throws -> Void] = [
            { _ = try fileSystem.open("/new", .writeOnly, options: [.create]) },
            { _ = try fileSystem.open("/file", .writeOnly, options: [.truncate]) },
            { try writeByte(descriptor) }, { try fileSystem.truncate(.path("/file"), to: 9) },
            { try fileSystem.allocate(descriptor, at: 0, length: 9) },
        ]
        for call in calls {
            let error = try #require(throws: FileSystemError.self) { try call() }
            #expect(error.errno == .ioError)
            #expect((error.underlying as NSError?)?.code == 507)
        }
        try fileSystem.createDirectory("/directory")
        try fileSystem.rename("/file", to: "/renamed")
        #expect(try fileSystem.readFile("/renamed") == Array("old".utf8))
        #expect(!fileSystem.fileExists(atPath: "/new"))
    }

    @Test("`readError` is thrown unchanged, and underlies the error of a descriptor read")
    func readError() throws {
        try fileSystem.write(Data("old".utf8), to: file)
        fileSystem.readError = NSError(domain: "Unreadable", code: 5)
        let error = #expect(throws: (any Error).self) { try fileSystem.read(from: file) }
        #expect((error as NSError?)?.code == 5)
        let below = #expect(throws: FileSystemError.self) { try fileSystem.readFile("/file") }
        #expect(below?.errno == .ioError && below?.underlying != nil)
        #expect(try fileSystem.status("/file").sizeInBytes == 3)
        fileSystem.readError = nil
        #expect(try fileSystem.read(from: file) == Data("old".utf8))
    }

    @Test("a reset empties the tree, closes everything and clears the errors, for all processes")
    func reset() throws {
        let other = fileSystem.process()
        try fileSystem.createDirectory("/directory")
        try other.changeDirectory("/directory")
        _ = try other.open("/directory")
        fileSystem.writeError = CancellationError()
        fileSystem.readError = CancellationError()
        fileSystem.reset()
        #expect(other.openDescriptors.isEmpty)
        #expect(fileSystem.writeError == nil && fileSystem.readError == nil)
        try other.createDirectory("again")
        #expect(try fileSystem.status("/again").type == .directory)
        #expect(try fileSystem.usage().inodeCount == 2)
    }

    @Test("a reset ends the watch of every directory", .timeLimit(.minutes(10)))
    func watchedReset() async throws {
        let queue = DispatchQueue(label: "reset")
        let (events, continuation) = AsyncStream<[DirectoryEvent]>.makeStream()
        try fileSystem.createDirectory("/directory")
        let directory = try fileSystem.open("/directory", options: [.directory])
        let watch = try fileSystem.makeDirectoryWatch(on: queue) {
            continuation.yield($0)
        } onCancel: {
            continuation.finish()
        }
        _ = try queue.sync { () throws(FileSystemError) in try watch.watch(directory, includesWrites: true) }
        fileSystem.reset()
        var iterator = events.makeAsyncIterator()
        #expect(await iterator.next() == [.lost])
        try fileSystem.createDirectory("/directory")
        try fileSystem.write(Data(), to: URL(filePath: "/directory/file"))
        watch.cancel()
        #expect(await iterator.next() == nil)
    }

    // MARK: Processes

    @Test("processes share the tree, but neither descriptors nor working directory")
    func processes() throws {
        let other = fileSystem.process(user: UserID(7), group: GroupID(8), umask: FilePermissions(rawValue: 0o077))
        try fileSystem.createDirectory("/home")
        try fileSystem.setPermissions(FilePermissions(rawValue: 0o777), of: .path("/home"))
        try other.changeDirectory("/home")
        let descriptor = try other.open(
            "mine", .writeOnly, options: [.create], permissions: FilePermissions(rawValue: 0o666))
        let status = try fileSystem.status("/home/mine")
        #expect(status.owner == UserID(7) && status.group == GroupID(8))
        #expect(status.permissions == .ownerReadWrite)
        #expect(fileSystem.openDescriptors.isEmpty)
        #expect(throws: FileSystemError.self) { try fileSystem.close(descriptor) }
    }

    @Test("the end of a process releases its descriptors, locks and unlinked files")
    func endOfProcess() throws {
        try fileSystem.write(Data(repeating: 1, count: 5000), to: file)
        let other = fileSystem.process()
        let theirs = try other.open("/file")
        let ours = try fileSystem.open("/file")
        try other.lock(theirs, .exclusive, waiting: false)
        #expect(throws: FileSystemError.self) { try fileSystem.lock(ours, .shared, waiting: false) }
        other.endProcess()
        try fileSystem.lock(ours, .shared, waiting: false)
        #expect(other.openDescriptors.isEmpty)
        try fileSystem.close(ours)

        let holder = try other.open("/file")
        try fileSystem.unlink("/file")
        #expect(try fileSystem.usage() == usage(blocks: 2, inodes: 2))
        _ = holder
        other.endProcess()
        #expect(try fileSystem.usage() == usage(blocks: 0, inodes: 1))
    }

    @Test("releasing its object ends a process")
    func processObject() throws {
        try fileSystem.write(Data([1]), to: file)
        do {
            _ = try fileSystem.process().open("/file")
        }
        try fileSystem.unlink("/file")
        #expect(try fileSystem.usage().inodeCount == 1)
    }

    @Test("a removed working directory is empty and accepts no entries, but has a parent")
    func removedWorkingDirectory() throws {
        try fileSystem.createDirectory("/a")
        try fileSystem.createDirectory("/a/b")
        try fileSystem.changeDirectory("a/b")
        let above = try fileSystem.status("/a").inode
        try fileSystem.removeDirectory("/a/b")
        try fileSystem.removeDirectory("/a")
        try fileSystem.createDirectory("/next")
        #expect(try fileSystem.status("..").inode == above)
        try fileSystem.removeDirectory("/next")
        expectErrno(.noSuchFileOrDirectory) { _ = try fileSystem.open("x", .writeOnly, options: [.create]) }
        expectErrno(.noSuchFileOrDirectory) { try fileSystem.createDirectory("x") }
        #expect(try fileSystem.status(".").linkCount == 0)
        #expect(try fileSystem.status("../..").inode == fileSystem.status("/").inode)
        try fileSystem.changeDirectory("/")
        #expect(try fileSystem.usage().inodeCount == 1)
        expectErrno(.noSuchFileOrDirectory) { try fileSystem.changeDirectory("/a") }
        try fileSystem.write(Data(), to: file)
        expectErrno(.notDirectory) { try fileSystem.changeDirectory("/file") }
    }

    @Test("a waiting thread gets the lock once it is free", .timeLimit(.minutes(20)))
    func waitingLock() throws {
        try fileSystem.write(Data(), to: file)
        let order = Mutex<[String]>([])
        let holder = try fileSystem.open("/file")
        try fileSystem.lock(holder, .exclusive, waiting: true)
        let waiter = Thread { [fileSystem] in
            do {
                let descriptor = try fileSystem.open("/file")
                try fileSystem.lock(descriptor, .exclusive, waiting: true)
                order.withLock { $0.append("waiter") }
                try fileSystem.close(descriptor)
            } catch {
                order.withLock { $0.append("\(error)") }
            }
        }
        waiter.start()
        while fileSystem.openDescriptors.count < 2 { sched_yield() }
        order.withLock { $0.append("holder") }
        try fileSystem.close(holder)
        while fileSystem.openDescriptors.count > 0 { sched_yield() }
        #expect(order.withLock { $0 } == ["holder", "waiter"])
    }

    // MARK: Devices

    @Test("a mounted directory cannot be removed, renamed or mounted again")
    func mountPoints() throws {
        try fileSystem.createDirectory("/m")
        try fileSystem.mount(at: "/m", quota: .init(sizeInBytes: 4096, inodeCount: 3))
        expectErrno(.resourceBusy) { try fileSystem.removeDirectory("/m") }
        expectErrno(.resourceBusy) { try fileSystem.rename("/m", to: "/n") }
        expectErrno(.resourceBusy) { try fileSystem.mount(at: "/m") }
        expectErrno(.resourceBusy) { try fileSystem.mount(at: "/") }
        try fileSystem.createDirectory("/d")
        try fileSystem.createDirectory("/d/x")
        expectErrno(.directoryNotEmpty) { try fileSystem.mount(at: "/d") }
        try fileSystem.createDirectory("/m/x")
        #expect(try fileSystem.usage(at: "/m/x").inodeCount == 2)
        try fileSystem.setQuota(.init(inodeCount: 2), at: "/m")
        expectErrno(.noSpace) { try fileSystem.createDirectory("/m/y") }
        try fileSystem.setReadOnly(true, at: "/m")
        expectErrno(.readOnlyFileSystem) { try fileSystem.removeDirectory("/m/x") }
        try fileSystem.write(Data(), to: file)
    }

    @Test("a file grows to the limit and no further")
    func fileSizeLimit() throws {
        var options = InMemoryFileSystem.Options()
        options.maximumFileSizeInBytes = 10
        let fileSystem = InMemoryFileSystem(options: options)
        let descriptor = try fileSystem.open("/file", .readWrite, options: [.create])
        let bytes = [UInt8](repeating: 1, count: 8)
        #expect(try bytes.withUnsafeBytes { try fileSystem.write(descriptor, from: $0, at: 0) } == 8)
        #expect(try bytes.withUnsafeBytes { try fileSystem.write(descriptor, from: $0, at: 8) } == 2)
        expectErrno(.fileTooLarge) {
            try bytes.withUnsafeBytes { _ = try fileSystem.write(descriptor, from: $0, at: 10) }
        }
        expectErrno(.fileTooLarge) { try fileSystem.truncate(.descriptor(descriptor), to: 11) }
        expectErrno(.fileTooLarge) { try fileSystem.allocate(descriptor, at: 1, length: .max) }
        expectErrno(.invalidArgument) { _ = try fileSystem.seek(descriptor, to: .max, from: .end) }
    }

    // MARK: Determinism

    @Test("times come from the given clock, once per operation")
    func clock() throws {
        let calls = Mutex<Int64>(0)
        let fileSystem = InMemoryFileSystem(
            options: .init(clock: {
                calls.withLock { calls in
                    calls += 1
                    return FileTime(seconds: calls)
                }
            }))
        try fileSystem.createDirectory("/a")
        #expect(try fileSystem.status("/a").modified == FileTime(seconds: 2))
        #expect(try fileSystem.status("/").modified == FileTime(seconds: 2))
        #expect(calls.withLock { $0 } == 2)
    }

    @Test("the file system's clock orders changes")
    func tick() throws {
        try fileSystem.createDirectory("/a")
        try fileSystem.createDirectory("/b")
        #expect(try fileSystem.status("/a").modified < fileSystem.status("/b").modified)
    }

    @Test("a listing is in the order of insertion, or shuffled by a seed, never sorted")
    func listingOrder() throws {
        let names = (0..<50).map { "n\($0 * 29 % 50 + 10)" }
        func listing(_ order: InMemoryFileSystem.ListingOrder) throws -> [String] {
            let fileSystem = InMemoryFileSystem(options: .init(listingOrder: order))
            for name in names { try fileSystem.createDirectory(POSIXPath("/" + name)) }
            return try fileSystem.contentsOfDirectory(at: URL(filePath: "/")).map(\.lastPathComponent)
        }
        #expect(try listing(.insertion) == names)
        let shuffled = try listing(.shuffled(seed: 1))
        #expect(try listing(.shuffled(seed: 1)) == shuffled)
        #expect(try listing(.shuffled(seed: 2)) != shuffled)
        #expect(shuffled.sorted() == names.sorted() && shuffled != names && shuffled != names.sorted())
    }

    @Test("random bits are determined by the seed")
    func randomBits() {
        let other = InMemoryFileSystem()
        #expect(fileSystem.randomBits() == other.randomBits())
        #expect(fileSystem.randomBits() != fileSystem.randomBits())
        #expect(InMemoryFileSystem(options: .init(seed: 1)).randomBits() != InMemoryFileSystem().randomBits())
    }

    @Test("after thousands of names are added and removed in one directory, the others are found")
    func manyNames() throws {
        for number in 0..<3000 { try fileSystem.createDirectory(POSIXPath("/n\(number)")) }
        for number in 0..<3000 where number % 5 != 0 { try fileSystem.removeDirectory(POSIXPath("/n\(number)")) }
        for number in 0..<3000 {
            #expect(fileSystem.fileExists(atPath: "/n\(number)") == (number % 5 == 0))
        }
        for number in 3000..<3100 { try fileSystem.createDirectory(POSIXPath("/n\(number)")) }
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/")).count == 700)
        for number in stride(from: 0, to: 3000, by: 5) { try fileSystem.removeDirectory(POSIXPath("/n\(number)")) }
        for number in 3000..<3100 { try fileSystem.removeDirectory(POSIXPath("/n\(number)")) }
        #expect(try fileSystem.usage().inodeCount == 1)
    }

    @Test("space is counted in blocks, however it was allocated or freed")
    func spaceAccounting() throws {
        let descriptor = try fileSystem.open("/file", .readWrite, options: [.create])
        func expectBlocks(_ count: Int64, _ step: Comment) throws {
            #expect(try fileSystem.usage().sizeInBytes == count * 4096, step)
            #expect(try fileSystem.status("/file").allocatedSizeInBytes == count * 4096, step)
        }
        try writeByte(descriptor, at: 5)
        try expectBlocks(1, "one byte")
        try writeByte(descriptor, at: 4096)
        try expectBlocks(2, "a byte in the next block")
        try writeByte(descriptor, at: 1_000_000)
        try expectBlocks(3, "a byte far away")
        try fileSystem.allocate(descriptor, at: 0, length: 16_384)
        try expectBlocks(5, "two blocks reserved in the hole")
        try writeByte(descriptor, at: 9000)
        try expectBlocks(5, "a byte in a reserved block")
        try fileSystem.allocate(descriptor, at: 1 << 40, length: 8192)
        try expectBlocks(7, "blocks reserved at a terabyte")
        try fileSystem.allocate(descriptor, at: 0, length: 1_004_000)
        try expectBlocks(248, "the hole reserved")
        try fileSystem.truncate(.descriptor(descriptor), to: 8193)
        try expectBlocks(3, "cut to a byte of the third block")
        try fileSystem.truncate(.descriptor(descriptor), to: 0)
        try expectBlocks(0, "cut to nothing")
    }

    @Test(
        "a file that is cut has zeros there when it grows again, and takes only the blocks before",
        arguments: [0, 1, 4096, 16_383, 16_384, 16_385, 32_768, 98_304, 99_999, 100_000])
    func cut(_ size: Int) throws {
        let descriptor = try fileSystem.open("/file", .readWrite, options: [.create])
        // Far from the beginning first, so that the content is kept in parts.
        try writeByte(descriptor, at: 99_999)
        try fileSystem.writeBytes([UInt8](repeating: 7, count: 100_000), to: descriptor, at: 0)
        try fileSystem.truncate(.descriptor(descriptor), to: Int64(size))
        try fileSystem.truncate(.descriptor(descriptor), to: 100_000)
        #expect(try fileSystem.usage() == usage(blocks: Int64((size + 4095) / 4096), inodes: 2))
        let expected = Data(repeating: 7, count: size) + Data(count: 100_000 - size)
        #expect(try fileSystem.read(from: file) == expected)
    }

    private func usage(blocks: Int64, inodes: Int) -> InMemoryFileSystem.Usage {
        InMemoryFileSystem.Usage(sizeInBytes: blocks * 4096, inodeCount: inodes)
    }

    private func writeByte(_ descriptor: Descriptor, at offset: Int64? = nil) throws {
        _ = try withUnsafeBytes(of: UInt8(1)) { try fileSystem.write(descriptor, from: $0, at: offset) }
    }

    private func expectErrno(
        _ errno: Errno, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void
    ) {
        let error = #expect(throws: FileSystemError.self, sourceLocation: sourceLocation) { try body() }
        #expect(error?.errno == errno, sourceLocation: sourceLocation)
    }
}
