import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("Only regular files are read as a whole")
struct WholeFileTests {
    private func expectRefusal(
        _ path: POSIXPath, on fileSystem: some POSIXFileSystem, _ errno: Errno = .notSupported
    ) throws {
        for read: () throws -> Void in [
            { _ = try fileSystem.read(from: URL(path)) }, { _ = try fileSystem.readFile(path) },
        ] {
            let error = #expect(throws: FileSystemError.self) { try read() }
            #expect(error?.errno == errno)
            #expect(error?.path == path)
        }
    }

    @Test("a FIFO without a writer is refused", .timeLimit(.minutes(10)))
    func fifo() throws {
        let memory = InMemoryFileSystem()
        try memory.createNode(
            "/fifo", at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        try expectRefusal("/fifo", on: memory)
        #expect(memory.openDescriptors == InMemoryFileSystem().openDescriptors)
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let path = directory.path.appending("fifo")
        try SystemFileSystem().createNode(
            path, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        try expectRefusal(path, on: SystemFileSystem())
    }

    @Test("a FIFO with a reader is written in place", .timeLimit(.minutes(10)))
    func writtenFIFO() throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let system = SystemFileSystem()
        let path = directory.path.appending("fifo")
        try system.createNode(path, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        let reader = try system.open(path, .readOnly, options: [.nonBlocking])
        defer { system.discard(reader) }
        try system.write(Data("text".utf8), to: URL(path))
        var buffer = [UInt8](repeating: 0, count: 10)
        let count = try buffer.withUnsafeMutableBytes { try system.read(reader, into: $0, at: nil) }
        #expect(buffer.prefix(count).elementsEqual("text".utf8))
        #expect(try system.status(path).type == .fifo)
        #expect(try system.contentsOfDirectory(at: directory.url).count == 1)
    }

    @Test("a file is written through 39 links, each relative to its directory, and not through more")
    func writtenLinks() throws {
        let memory = InMemoryFileSystem()
        for path: POSIXPath in ["/a", "/b"] { try memory.createDirectory(path) }
        try memory.createSymbolicLink("/a/0", to: "../b/f")
        for number in 1..<40 {
            try memory.createSymbolicLink(POSIXPath("/a/\(number)"), to: POSIXPath("\(number - 1)"))
        }
        try memory.write(Data("text".utf8), to: URL(filePath: "/a/38"))
        #expect(try memory.readFile("/b/f") == Array("text".utf8))
        #expect(try memory.status("/a/38", followsSymbolicLinks: false).type == .symbolicLink)
        expectErrno(.tooManySymbolicLinkLevels) { try memory.write(Data(), to: URL(filePath: "/a/39")) }
        #expect(try memory.readFile("/b/f") == Array("text".utf8))
    }

    @Test("a device is refused, even one whose content has no end", arguments: ["/dev/null", "/dev/zero"])
    func device(_ path: String) throws {
        try expectRefusal(POSIXPath(path), on: SystemFileSystem())
    }

    @Test("a directory is refused as a directory")
    func directory() throws {
        try expectRefusal("/", on: InMemoryFileSystem(), .isDirectory)
        try expectRefusal("/", on: SystemFileSystem(), .isDirectory)
    }

    @Test("a link to a regular file is followed")
    func link() throws {
        let memory = InMemoryFileSystem()
        try memory.write(Data("x".utf8), to: URL(filePath: "/file"))
        try memory.createSymbolicLink("/link", to: "/file")
        #expect(try memory.readFile("/link") == Array("x".utf8))
    }
}

@Suite("The reads of a whole file")
struct WholeFileReadTests {
    private let memory = InMemoryFileSystem()

    /// A file system that calls `body` before each read with its number, from 1 on.
    private func beforeRead(
        _ body: @escaping @Sendable (Int) throws(FileSystemError) -> Void
    ) -> InterceptedFileSystem<InMemoryFileSystem> {
        let count = Mutex(0)
        return InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .read else { return }
            let number = count.withLock { count in
                count += 1
                return count
            }
            try body(number)
        }
    }

    @Test("are one unless the file grows", arguments: [0, 1, 511, 512, 513, 100_000])
    func count(_ size: Int) throws {
        let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
        try memory.write(Data(bytes), to: URL(filePath: "/f"))
        let last = Mutex(0)
        let fileSystem = beforeRead { number in last.withLock { $0 = number } }
        #expect(try fileSystem.readFile("/f") == bytes)
        #expect(last.withLock { $0 } == 1)
        #expect(try memory.readFile("/f", maximumSizeInBytes: size) == bytes)
        guard size > 0 else { return }
        let error = #expect(throws: FileSystemError.self) { try memory.readFile("/f", maximumSizeInBytes: size - 1) }
        #expect(error?.errno == .fileTooLarge && error?.path == "/f")
    }

    @Test("find what is appended meanwhile, up to the maximum size", arguments: [.max, 5_000, 4_999, 600] as [Int])
    func growing(_ maximum: Int) throws {
        let bytes = (0..<5_000).map { UInt8(truncatingIfNeeded: $0) }
        try memory.write(Data(bytes.prefix(10)), to: URL(filePath: "/f"))
        let fileSystem = beforeRead { [memory] (number) throws(FileSystemError) in
            guard number == 1 else { return }
            let file = try memory.open("/f", .writeOnly)
            try memory.closing(file) { () throws(FileSystemError) in
                try memory.writeBytes(bytes, to: file, at: 0)
            }
        }
        var content: [UInt8]?
        var errno: Errno?
        do throws(FileSystemError) {
            content = try fileSystem.readFile("/f", maximumSizeInBytes: maximum)
        } catch {
            errno = error.errno
        }
        #expect(content == (maximum < 5_000 ? nil : bytes))
        #expect(errno == (maximum < 5_000 ? .fileTooLarge : nil))
        #expect(memory.openDescriptors == [])
    }

    @Test("and the closing of a file report the first error")
    func firstError() throws {
        try memory.write(Data("x".utf8), to: URL(filePath: "/f"))
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .close { throw FileSystemError(.close, .ioError) }
        }
        let closing = #expect(throws: FileSystemError.self) { try failing.readFile("/f") }
        #expect(closing?.operation == .close && closing?.path == "/f")
        try memory.createDirectory("/d")
        let reading = #expect(throws: FileSystemError.self) { try failing.readFile("/d") }
        #expect(reading?.operation == .read && reading?.errno == .isDirectory)
        #expect(memory.openDescriptors == [])
    }
}

@Suite("Files of any size")
struct HostileSizeTests {
    static let sizes: [Int64] = [.max, 1 << 46, (1 << 31)]

    private func hasFiles(
        of size: Int64, _ file: Descriptor, _ fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Bool {
        do {
            try fileSystem.truncate(.descriptor(file), to: size)
            return true
        } catch  where error.errno == .fileTooLarge || error.errno == .invalidArgument {
            return false
        }
    }

    private func expectTooLarge(_ fileSystem: any POSIXFileSystem, _ path: POSIXPath, _ size: Int64) throws {
        let file = try fileSystem.open(path, .readWrite, options: [.create])
        defer { fileSystem.discard(file) }
        // Some file systems have a smaller limit: ext4 ends at 16 TiB.
        guard try hasFiles(of: size, file, fileSystem) else { return }
        for read: () throws -> Void in [
            { _ = try fileSystem.read(from: URL(path)) }, { _ = try fileSystem.readFile(path) },
            { _ = try fileSystem.readContents(of: file, maximumSizeInBytes: 1000) },
        ] {
            let error = #expect(throws: FileSystemError.self) { try read() }
            #expect(error?.errno == .fileTooLarge)
        }
        #expect(try fileSystem.readBytes(of: file, at: size - 1, count: 1) == [0])
    }

    @Test("a file too large for memory is an error in memory", arguments: sizes)
    func inMemory(_ size: Int64) throws {
        try expectTooLarge(InMemoryFileSystem(), "/sparse", size)
    }

    @Test("a file too large for memory is an error on the disk", arguments: sizes)
    func onDisk(_ size: Int64) throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        try expectTooLarge(SystemFileSystem(), directory.path.appending("sparse"), size)
        // On tmpfs, files may have any size.
        let memory = POSIXPath("/dev/shm/sparse-\(UUID().uuidString)")
        guard SystemFileSystem().fileExists(atPath: "/dev/shm") else { return }
        defer { do { try SystemFileSystem().unlink(memory) } catch { Issue.record("\(error)") } }
        try expectTooLarge(SystemFileSystem(), memory, size)
    }
}

@Suite("Copying the content of an open file")
struct ContentCopyTests {
    private func copy(on fileSystem: some POSIXFileSystem) throws {
        let source = try fileSystem.open("/source")
        defer { fileSystem.discard(source) }
        let target = try fileSystem.open("/target", .writeOnly, options: [.create])
        defer { fileSystem.discard(target) }
        try fileSystem.copyContent(of: source, to: target)
    }

    @Test("keeps its holes, and fails with every call but that of the kernel, which reading and writing replaces")
    func everyFailingCall() throws {
        var number = 0
        while true {
            let memory = InMemoryFileSystem()
            let file = try memory.open("/source", .writeOnly, options: [.create])
            try memory.writeBytes([1, 2, 3], to: file, at: 100_000)
            try memory.truncate(.descriptor(file), to: 300_000)
            try memory.close(file)
            let counter = CallCounter(failing: number..<(number + 1))
            let failed = Mutex<FileSystemOperation?>(nil)
            let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                do throws(FileSystemError) {
                    try counter.countOrFail(call.operation, call.path, .ioError)
                } catch {
                    failed.withLock { $0 = call.operation }
                    throw error
                }
            }
            var error: (any Error)?
            do { try copy(on: failing) } catch let found { error = found }
            let operation = failed.withLock { $0 }
            if operation == nil || operation == .copyRange || operation == .close {
                #expect(error == nil, "call \(number)")
                #expect(try memory.readFile("/target") == memory.readFile("/source"), "call \(number)")
                // The kernel may write what is behind the data.
                #expect(try memory.status("/target").allocatedSizeInBytes <= 204_800, "call \(number)")
            } else {
                #expect((error as? FileSystemError)?.errno == .ioError, "call \(number)")
            }
            #expect(memory.openDescriptors == [], "call \(number)")
            number += 1
            guard counter.didFail else { break }
        }
        #expect(number > 8)
    }

    @Test("takes a file for data from everywhere to its end where holes are not reported")
    func withoutHoles() throws {
        let memory = InMemoryFileSystem()
        let file = try memory.open("/f", .readWrite, options: [.create])
        for errno in [Errno.invalidArgument, .noFunction, .notSupported, .ioError] {
            let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
                if call.operation == .seek { throw FileSystemError(.seek, errno) }
            }
            if errno == .ioError {
                expectErrno(errno) { _ = try fileSystem.nextData(of: file, at: 5) }
                expectErrno(errno) { _ = try fileSystem.nextHole(of: file, at: 5) }
            } else {
                #expect(try fileSystem.nextData(of: file, at: 5) == 5)
                #expect(try fileSystem.nextHole(of: file, at: 5) == .max)
            }
        }
        try memory.close(file)
    }
}

@Suite("An open file or directory")
struct OpenFileTests {
    private let memory = InMemoryFileSystem()

    @Test("is closed if its status cannot be read, and the error has its path")
    func unknownStatus() throws {
        try memory.write(Data("x".utf8), to: URL(filePath: "/f"))
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .status { throw FileSystemError(.status, .ioError) }
        }
        for (path, open) in [
            ("/f", { _ = try OpenFile("/f", options: [], on: failing) }),
            ("/", { _ = try OpenDirectory("/", on: failing) }),
        ] as [(POSIXPath, () throws -> Void)] {
            let error = #expect(throws: FileSystemError.self) { try open() }
            #expect(error?.errno == .ioError && error?.path == path)
            #expect(memory.openDescriptors == [])
        }
    }

    @Test("is still the same only with its number, device, size and times of change")
    func sameness() throws {
        try memory.write(Data("x".utf8), to: URL(filePath: "/f"))
        let file = try OpenFile("/f", options: [], on: memory)
        let isSame = file.isStill(try memory.status("/f"))
        #expect(isSame)
        for change in [
            { $0.inode += 1 }, { $0.device += 1 }, { $0.sizeInBytes += 1 }, { $0.modified.nanoseconds -= 1 },
            { $0.changed.seconds += 1 },
        ] as [(inout FileStatus) -> Void] {
            var status = file.status
            change(&status)
            let isStill = file.isStill(status)
            #expect(!isStill)
        }
    }
}
