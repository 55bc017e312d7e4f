import Dispatch
import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

private func value(_ key: String) -> Data { Data("value of \(key)".utf8) }

/// The cached value, or the one of the key.
private func found(_ key: String, in cache: BoundedCache<Data>) async throws -> Data {
    try await cache.value(for: key) { value(key) }
}

@Suite("The directory of a cache", .eachPlatform)
struct CacheDirectoryTests {
    @Test("keeps its limits after every insertion, and across openings")
    func limits() async throws {
        let fixture = CacheFixture { $0.disk = CacheLimits(sizeInBytes: 1000, count: 8) }
        var cache = try fixture.open()
        for number in 0..<40 {
            if number % 10 == 0 { cache = try fixture.open() }
            await cache.insert(Data(count: number * 7 % 200), for: "\(number)")
            let files = try fixture.files()
            #expect(files.count <= 8 && files.values.reduce(0, +) <= 1000)
            #expect(files["\(number).forgecache"] != nil)
            #expect(try await cache.sizeOnDisk() == files.values.reduce(0, +))
        }
        await cache.insert(Data(count: 1000), for: "39")
        #expect(try fixture.files()["39.forgecache"] == nil)
        #expect(cache.valueInMemory(for: "39") == Data(count: 1000))
        #expect(fixture.errors.isEmpty)
    }

    @Test("a purge that finds nothing flushes what a killed process may have removed", arguments: [true, false])
    func purgeFlushes(isDurable: Bool) async throws {
        let memory = EachPlatform.fileSystem()
        let flushes = CallCounter()
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { try flushes.countOrFail(.synchronize, nil, .ioError) }
        }
        var options = CacheOptions()
        options.durability = isDurable ? .full : .none
        let cache = try BoundedCache<Data>(
            directory: CacheFixture.directory, options: options, fileSystem: fileSystem)
        await cache.insert(value("a"), for: "a")
        try await cache.purge()
        let before = flushes.count
        try await cache.purge()
        #expect(flushes.count == before + (isDurable ? 1 : 0))
    }

    @Test("the size reads no file, and corrects itself when another process has removed files")
    func size() async throws {
        let fixture = CacheFixture { $0.disk = CacheLimits(count: 3) }
        let cache = try fixture.open()
        for key in ["a", "b", "c"] { await cache.insert(value(key), for: key) }
        let log = OperationLog()
        let other: BoundedCache<Data> = try BoundedCache(
            directory: CacheFixture.directory, fileSystem: FaultingFileSystem(fixture.fileSystem, log: log))
        #expect(try await other.sizeOnDisk() == (try fixture.files().values.reduce(0, +)))
        #expect(!log.records.contains { $0.operation == .read })
        let listings = log.records.count { $0.operation == .list }
        _ = try await other.sizeOnDisk()
        #expect(log.records.count { $0.operation == .list } == listings)
        try fixture.fileSystem.unlink(try fixture.path("a.forgecache"))
        try fixture.fileSystem.unlink(try fixture.path("b.forgecache"))
        for key in ["d", "e", "f", "g"] { await cache.insert(value(key), for: key) }
        #expect(try await cache.sizeOnDisk() <= 3 * 60)
        #expect(try fixture.files().count <= 3)
        for name in try fixture.files().keys { try fixture.fileSystem.unlink(try fixture.path(name)) }
        try await cache.purge()
        #expect(try await cache.sizeOnDisk() == 0)
        #expect(fixture.errors.isEmpty)
    }

    @Test(
        "of the files of an earlier cache the newest stay, as many as the limits allow",
        arguments: [CacheLimits(count: 3), CacheLimits(sizeInBytes: 3 * 51)])
    func newestFiles(limits: CacheLimits) async throws {
        let earlier = CacheFixture()
        let first = try earlier.open()
        for number in 0..<10 { await first.insert(Data(count: 10), for: "\(number)") }
        let cache = try CacheFixture(earlier.fileSystem) { $0.disk = limits }.open()
        #expect(try await cache.sizeOnDisk() == 3 * 51)
        #expect(try earlier.files() == ["7.forgecache": 51, "8.forgecache": 51, "9.forgecache": 51])
        #expect(cache.statistics.diskEvictionCount == 7)
    }

    @Test("an entry that takes all of the limit is kept, and a cache without room on disk writes nothing")
    func exactLimit() async throws {
        let exact = CacheFixture { $0.disk = CacheLimits(sizeInBytes: 51) }
        let cache = try exact.open()
        await cache.insert(Data(count: 10), for: "a")
        #expect(try exact.files() == ["a.forgecache": 51])
        await cache.insert(Data(count: 11), for: "a")
        #expect(try exact.files() == [:])
        let full = CacheFixture { $0.disk = CacheLimits(count: 0) }
        let other = try full.open()
        await other.insert(Data(count: 10), for: "a")
        #expect(try full.files() == [:])
        #expect(other.statistics.diskEvictionCount == 0)
        #expect(exact.errors.isEmpty && full.errors.isEmpty)
    }

    @Test("an entry that was read from disk is not the next one that is evicted there", arguments: [true, false])
    func hits(isOnDisk: Bool) async throws {
        try await withTemporaryDirectory { root in
            let fileSystem: any POSIXFileSystem = isOnDisk ? SystemFileSystem() : EachPlatform.fileSystem()
            var options = CacheOptions()
            options.memory = CacheLimits(count: 0)
            options.disk = CacheLimits(count: 4)
            let directory = root.appending(component: "cache")
            let cache = try BoundedCache<Data>(directory: directory, options: options, fileSystem: fileSystem)
            for key in ["a", "b", "c", "d"] { await cache.insert(value(key), for: key) }
            for _ in 0..<2 { #expect(try await cache.value(for: "d") { Data() } == value("d")) }
            await cache.insert(value("e"), for: "e")
            let left = ["a", "b", "c", "d", "e"].filter { key in
                fileSystem.fileExists(atPath: directory.path + "/\(key).forgecache")
            }
            #expect(left == ["b", "c", "d", "e"])
        }
    }

    @Test("an entry that could not be replaced is removed from disk and from the size, and no other file is left")
    func failedReplacement() async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        await cache.insert(Data("old".utf8), for: "a")
        fixture.fileSystem.writeError = CocoaError(.fileWriteUnknown)
        await cache.insert(Data("new".utf8), for: "a")
        fixture.fileSystem.writeError = nil
        #expect(fixture.errors.map(\.reason) == [.write])
        #expect(cache.valueInMemory(for: "a") == Data("new".utf8))
        #expect(try fixture.files() == [:])
        #expect(try await cache.sizeOnDisk() == 0)
    }

    @Test("an entry that is removed without a flush that was asked for is not counted any more")
    func unflushedRemoval() async throws {
        let fixture = CacheFixture()
        let isFailing = Atomic(false)
        let fileSystem = InterceptedFileSystem(fixture.fileSystem) { (call) throws(FileSystemError) in
            guard call.operation == .synchronize, isFailing.load(ordering: .relaxed) else { return }
            throw FileSystemError(.synchronize, .ioError)
        }
        var options = CacheOptions()
        options.durability = .full
        let cache = try BoundedCache<Data>(
            directory: CacheFixture.directory, options: options, fileSystem: fileSystem)
        for key in ["a", "b"] { await cache.insert(Data(count: 10), for: key) }
        isFailing.store(true, ordering: .relaxed)
        let error = await #expect(throws: FileSystemError.self) { try await cache.remove("a") }
        #expect(error?.errno == .ioError && error?.isEffectVisible == true)
        #expect(try fixture.files() == ["b.forgecache": 51])
        #expect(try await cache.sizeOnDisk() == 51)
    }

    @Test("a file that disappears while the directory is listed is not counted")
    func disappearance() async throws {
        let fixture = CacheFixture()
        let first = try fixture.open()
        for key in ["a", "b"] { await first.insert(value(key), for: key) }
        let memory = fixture.fileSystem
        let path = try fixture.path("a.forgecache")
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .status, call.path?.splitLast().name == "a.forgecache" else { return }
            try memory.unlink(path)
        }
        let cache = try BoundedCache<Data>(directory: CacheFixture.directory, fileSystem: fileSystem)
        #expect(try await cache.sizeOnDisk() == 51)
        #expect(try fixture.files() == ["b.forgecache": 51])
    }

    @Test("a file that is damaged after it was counted is a miss, and not counted any more", arguments: [true, false])
    func damageLater(isOnDisk: Bool) async throws {
        try await withTemporaryDirectory { root in
            let fileSystem: any POSIXFileSystem = isOnDisk ? SystemFileSystem() : EachPlatform.fileSystem()
            let errors = Mutex<[CacheError]>([])
            var options = CacheOptions()
            options.memory = CacheLimits(count: 0)
            options.onError = { error in errors.withLock { $0.append(error) } }
            let directory = root.appending(component: "cache")
            let cache = try BoundedCache<Data>(directory: directory, options: options, fileSystem: fileSystem)
            await cache.insert(value("a"), for: "a")
            // The second time, the system knows that there is no such file.
            for _ in 0..<2 {
                await #expect(throws: LoadFailure.self) { try await cache.value(for: "b") { _ in throw LoadFailure() } }
            }
            #expect(errors.withLock { $0.count } == 0)
            let file = directory.appending(component: "a.forgecache")
            var content = try fileSystem.read(from: file)
            content[50] ^= 1
            try fileSystem.write(content, to: file)
            await #expect(throws: LoadFailure.self) { try await cache.value(for: "a") { _ in throw LoadFailure() } }
            #expect(errors.withLock { $0.map(\.reason) } == [.read])
            #expect(!fileSystem.fileExists(atPath: file.path))
            #expect(try await cache.sizeOnDisk() == 0)
        }
    }

    @Test("a damaged, torn or empty file is a miss, is reported and is removed", arguments: [0, 10, 45, 50])
    func damage(length: Int) async throws {
        let fixture = CacheFixture()
        try await fixture.open().insert(Data(repeating: 1, count: 100), for: "a")
        let path = try fixture.path("a.forgecache")
        if length == 50 {
            let file = try fixture.fileSystem.open(path, .readWrite)
            try fixture.fileSystem.writeBytes([9], to: file, at: 50)
            try fixture.fileSystem.close(file)
        } else {
            try fixture.fileSystem.truncate(.path(path), to: Int64(length))
        }
        let cache = try fixture.open()
        await #expect(throws: LoadFailure.self) { try await cache.value(for: "a") { _ in throw LoadFailure() } }
        #expect(fixture.errors.map(\.reason) == [.read])
        #expect(try fixture.files().isEmpty)
        #expect(try await cache.value(for: "a") { Data("2".utf8) } == Data("2".utf8))
    }

    @Test("a file of another program with the name of an entry is not read and not removed")
    func foreignContent() async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        await cache.insert(value("own"), for: "own")
        try fixture.fileSystem.write(Data("mine".utf8), to: URL(try fixture.path("a.forgecache")))
        await #expect(throws: LoadFailure.self) { try await cache.value(for: "a") { _ in throw LoadFailure() } }
        #expect(try fixture.files()["a.forgecache"] == 4)
    }

    @Test("hostile keys have entries of their own below the directory")
    func hostileKeys() async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        let keys = [
            "", ".", "..", "../x", "/etc", "a/b", "A", "a", "é", "e\u{301}", "#lock", "\0",
            String(repeating: "x", count: 5000),
        ]
        for key in keys { await cache.insert(value(key), for: key) }
        let reopened = try fixture.open()
        for key in keys { #expect(try await reopened.value(for: key) { Data() } == value(key)) }
        #expect(try fixture.files().count == keys.count)
        try await reopened.purge()
        #expect(try fixture.files().isEmpty)
        #expect(fixture.errors.isEmpty)
    }

    @Test("files that no cache writes are neither read, replaced nor removed")
    func foreignFiles() async throws {
        let fixture = CacheFixture { $0.disk = CacheLimits(count: 2) }
        let fileSystem = fixture.fileSystem
        let cache = try fixture.open()
        await cache.insert(value("own"), for: "own")
        try fileSystem.write(Data("mine".utf8), to: URL(filePath: "/mine"))
        try fileSystem.createSymbolicLink(try fixture.path("link.forgecache"), to: "/mine")
        try fileSystem.createDirectory(try fixture.path("folder.forgecache"))
        try fileSystem.createNode(
            try fixture.path("fifo.forgecache"), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite,
            deviceNumber: 0)
        for name in ["notes.txt", "UPPER.forgecache", "#tmp-abcdefghabcdefgh"] {
            try fileSystem.write(Data("mine".utf8), to: URL(try fixture.path(name)))
        }
        let foreign = try fixture.files().filter { $0.key != "own.forgecache" }
        for cache in [cache, try fixture.open()] {
            for key in ["link", "folder", "fifo", "x", "y", "z"] {
                await cache.insert(value(key), for: key)
                #expect(try await cache.value(for: key) { Data() } == value(key))
                try await cache.remove(key)
            }
            try await cache.purge()
        }
        #expect(try fixture.files() == foreign)
        #expect(try fileSystem.read(from: URL(filePath: "/mine")) == Data("mine".utf8))
        #expect(fixture.errors.allSatisfy { $0.reason == .write })
    }

    @Test("an evicted file that cannot be removed is reported, and the entry that displaced it is stored")
    func unremovable() async throws {
        let memory = EachPlatform.fileSystem()
        let errors = Mutex<[CacheError]>([])
        var options = CacheOptions()
        options.disk = CacheLimits(count: 1)
        options.onError = { error in errors.withLock { $0.append(error) } }
        let plan = FaultPlan([.fail(.unlink, matching: "**/a.forgecache", with: .ioError)])
        let cache = try BoundedCache<Data>(
            directory: CacheFixture.directory, options: options,
            fileSystem: FaultingFileSystem(memory, plan: plan))
        for key in ["a", "b"] { await cache.insert(value(key), for: key) }
        #expect(cache.statistics.errorCount == 1 && cache.statistics.diskEvictionCount == 1)
        #expect(errors.withLock { $0.map(\.reason) } == [.write])
        #expect(errors.withLock { $0.map(\.key) } == ["b"])
        let other = try BoundedCache<Data>(directory: CacheFixture.directory, fileSystem: memory)
        #expect(try await other.value(for: "b") { Data() } == value("b"))
    }

    @Test("an evicted file that could not be removed stays if its entry is stored again")
    func storedAgain() async throws {
        let fixture = CacheFixture()
        let isStuck = Atomic(true)
        let fileSystem = InterceptedFileSystem(fixture.fileSystem) { (call) throws(FileSystemError) in
            guard call.operation == .unlink, call.path?.splitLast().name == "a.forgecache",
                isStuck.load(ordering: .relaxed)
            else { return }
            throw FileSystemError(.unlink, .ioError)
        }
        var options = CacheOptions()
        options.disk = CacheLimits(count: 1)
        let cache = try BoundedCache<Data>(
            directory: CacheFixture.directory, options: options, fileSystem: fileSystem)
        for key in ["a", "b"] { await cache.insert(value(key), for: key) }
        #expect(try fixture.files().count == 2)
        isStuck.store(false, ordering: .relaxed)
        await cache.insert(value("a"), for: "a")
        #expect(try fixture.files() == ["a.forgecache": 51])
        #expect(cache.statistics.errorCount == 1)
    }

    @Test("a call of the file system that fails leaves a working cache")
    func failingCalls() async throws {
        let report = try await forEachFailingCall(
            errnos: [.ioError], every: TestDepth.isDeep ? 1 : 9, on: { EachPlatform.fileSystem() }
        ) { fileSystem in
            var options = CacheOptions()
            options.memory = CacheLimits(count: 0)
            options.disk = CacheLimits(count: 2)
            return try BoundedCache<Data>(directory: CacheFixture.directory, options: options, fileSystem: fileSystem)
        } prepare: { cache in
            for key in ["a", "b"] { await cache.insert(value(key), for: key) }
        } change: { cache in
            for key in ["a", "c"] { _ = try await found(key, in: cache) }
            await cache.insert(Data("new".utf8), for: "c")
            // The cache throws no errors of the disk here, so that they are found in its counts.
            if cache.statistics.errorCount > 0 { throw LoadFailure() }
            try await cache.remove("b")
        } verify: { cache, _ in
            for key in ["a", "b"] { #expect(try await found(key, in: cache) == value(key)) }
            let last = try await found("c", in: cache)
            #expect(last == value("c") || last == Data("new".utf8))
            await cache.insert(value("d"), for: "d")
            try await cache.purge()
            #expect(try await cache.sizeOnDisk() == 0)
        }
        #expect(report.runCount > 10)
    }
}

@Suite("The file of a cache entry")
struct CacheFileTests {
    static let samples = [
        CacheFile(key: "a", tag: nil, expiry: nil, payload: Data()),
        CacheFile(key: "", tag: "", expiry: .min, payload: Data([0])),
        CacheFile(
            key: "e\u{301}/x", tag: "\"v1\"", expiry: 1_700_000_000_123, payload: Data(repeating: 7, count: 5000)),
        CacheFile(key: "absent", tag: nil, expiry: 5, payload: nil),
        CacheFile(key: "", tag: nil, expiry: 5, payload: nil),
    ]

    private func content(of file: CacheFile) -> [UInt8] { file.header() + Array(file.payload ?? Data()) }

    @Test("is read as it was written", arguments: 0..<5)
    func roundTrip(number: Int) throws {
        let file = Self.samples[number]
        let read = try CacheFile(content(of: file), key: file.key)
        #expect(read.key.utf8.elementsEqual(file.key.utf8))
        #expect(read.tag == file.tag && read.expiry == file.expiry && read.payload == file.payload)
    }

    @Test("has the documented bytes")
    func golden() throws {
        let golden: [UInt8] =
            Array("FORGECCH".utf8) + [1, 0, 0, 0] + [0x8c, 0xd2, 0xfa, 0xf6]
            + [0x7b, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0x00, 0x00] + [2, 0, 0, 0] + [3, 0, 0, 0] + [2, 0, 0, 0]
            + [0, 0, 0, 0] + Array("key".utf8) + Array("v1".utf8) + Array("value".utf8)
        let file = CacheFile(key: "key", tag: "v1", expiry: 1_700_000_000_123, payload: Data("value".utf8))
        #expect(content(of: file) == golden)
    }

    @Test("every flipped bit and every truncation is detected")
    func damage() throws {
        let file = CacheFile(key: "key", tag: "tag", expiry: 9, payload: Data("value".utf8))
        let intact = content(of: file)
        for bit in 0..<8 * intact.count {
            var damaged = intact
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(throws: CacheFile.Damage.self) { try CacheFile(damaged, key: "key") }
        }
        for count in 0..<intact.count {
            #expect(throws: CacheFile.Damage.self) { try CacheFile(Array(intact.prefix(count)), key: "key") }
        }
        #expect(throws: CacheFile.Damage.otherKey) { try CacheFile(intact, key: "kez") }
    }

    /// The content with other bytes from an offset on, and their checksum.
    private func forged(_ file: CacheFile, _ bytes: [UInt8], at offset: Int) -> [UInt8] {
        var content = content(of: file)
        content.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        var checksum = CRC32C()
        content.withUnsafeBytes { content in
            checksum.update(UnsafeRawBufferPointer(rebasing: content[..<12]))
            checksum.update(UnsafeRawBufferPointer(rebasing: content[16...]))
        }
        content.replaceSubrange(12..<16, with: withUnsafeBytes(of: checksum.value.littleEndian, Array.init))
        return content
    }

    @Test("with bytes that no cache writes is damaged, whatever its checksum")
    func forgedFields() throws {
        let file = CacheFile(key: "key", tag: "tag", expiry: 9, payload: Data("value".utf8))
        _ = try CacheFile(forged(file, [2], at: 24), key: "key")
        let changes: [([UInt8], Int)] = [
            ([6], 24), ([0], 24), ([12], 28), ([0xFF, 0xFF, 0xFF, 0xFF], 28), ([9], 32), ([1], 36), ([0xFF], 43),
        ]
        for (bytes, offset) in changes {
            #expect(throws: CacheFile.Damage.checksum) { try CacheFile(forged(file, bytes, at: offset), key: "key") }
        }
    }

    @Test("of a later version is not read")
    func laterVersion() throws {
        var content = content(of: Self.samples[0])
        content[8] = 2
        #expect(throws: CacheFile.Damage.newerVersion(2)) { try CacheFile(content, key: "a") }
    }
}
