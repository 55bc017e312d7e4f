import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing
@testable import ForgeKVStore

@Suite("The copy of a mirror on disk")
struct MirrorCopyTests {
    private let directory = TemporaryDirectory()

    private var configuration: MirroredKVStore.Configuration {
        get throws {
            var configuration = MirroredKVStore.Configuration.test
            configuration.copy = try .init(at: directory.url)
            return configuration
        }
    }

    /// A mirror that has caught up and was closed.
    private func fill(_ remote: RemoteDouble) async throws {
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        try await mirror.close()
    }

    @Test("a process begins with the last values while the store is down, and then continues from their revision")
    func beginning() async throws {
        let remote = RemoteDouble()
        for name in ["", "a", "removed"] { remote.set(name, 1) }
        try await fill(remote)
        remote.set("removed", nil)
        remote.set("", 2)
        let revision = remote.set("b", 2)
        remote.state.withLock { $0.isDown = true }
        let mirror = try MirroredKVStore(remote, configuration)
        #expect(try mirror.numbers == ["": 1, "a": 1, "removed": 1])
        #expect(mirror.revision == 3)
        #expect(try mirror.entry(named: "a")?.revision == 2)
        #expect(!mirror.isCaughtUp && mirror.age == nil)
        try await until { mirror.failure != nil }
        remote.state.withLock { $0.isDown = false }
        try await mirror.wait(upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["": 2, "a": 1, "b": 2])
        #expect(mirror.revision == revision)
        #expect(remote.state.withLock { $0.listCount } == 1)
        try await mirror.close()
        remote.state.withLock { $0.isDown = true }
        let last = try MirroredKVStore(remote, configuration)
        #expect(try last.numbers == ["": 2, "a": 1, "b": 2])
        #expect(last.revision == revision)
        try await last.close()
    }

    @Test("the copy of another store is replaced", arguments: [("two", 9), ("one", 1)])
    func otherStore(_ storeID: String, _ revision: UInt64) async throws {
        let remote = RemoteDouble()
        for name in ["", "a", "b"] { remote.set(name, 1) }
        try await fill(remote)
        remote.replace(by: ["b": 7], revision: revision, storeID: storeID)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        #expect(try mirror.numbers == ["b": 7])
        try await mirror.close()
        remote.state.withLock { $0.isDown = true }
        let last = try MirroredKVStore(remote, configuration)
        #expect(try last.numbers == ["b": 7])
        #expect(last.revision == revision)
        try await last.close()
    }

    @Test("a crash at any byte of the copy leaves a state that the mirror had, with its revision")
    func crashes() async throws {
        let remote = RemoteDouble()
        remote.change([("a", 1), ("b", 1)])
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        for value in 2...6 {
            let revision = remote.change([("a", value), ("b", value % 3 == 0 ? nil : value)])
            try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
            // The copy is written behind the mirror, perhaps several changes at once.
            try await until { mirror.feed.copy?.isIdle == true }
            remote.cut()
        }
        try await mirror.close()
        let history = remote.state.withLock { $0.history }
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.url.path)
        let log = try #require(files.first { !$0.hasPrefix("#") })
        let bytes = try Data(contentsOf: directory.url.appending(path: log))
        var revisions: Set<UInt64?> = []
        for length in TestDepth.sample(0...bytes.count, every: 7) {
            let crashed = TemporaryDirectory()
            try FileManager.default.createDirectory(at: crashed.url, withIntermediateDirectories: true)
            try bytes.prefix(length).write(to: crashed.url.appending(path: log))
            let copy: MirrorCopy
            do { copy = try MirrorCopy(.init(at: crashed.url)) } catch { continue }
            let (content, position) = try copy.content()
            revisions.insert(position.revision)
            let found = Dictionary(uniqueKeysWithValues: content.map { (KeyName($0.name), $0.entry) })
            #expect(found == history[position.revision ?? 0], "cut at byte \(length)")
            try copy.close()
        }
        #expect(revisions.count >= 6)
    }

    @Test("reports a copy that cannot be written, and writes it completely once it can")
    func fullDevice() async throws {
        let disk = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 1 << 20)))
        let remote = RemoteDouble()
        var configuration = MirroredKVStore.Configuration.test
        configuration.copy = .init(at: "/copy", fileSystem: disk)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        try await mirror.remote.set(KVKey<Int>("removed"), value: 1)
        // Larger than the device.
        try await mirror.remote.batch { batch in
            try batch.set(KVKey<Data>("large"), value: Data(repeating: 1, count: 2 << 20))
            try batch.set(KVKey<Int>("kept"), value: 1)
        }
        try await until { (mirror.copyFailure as? KVStoreError)?.isOutOfSpace == true }
        #expect(mirror.contains(KVKey<Data>("large")))
        try await mirror.remote.remove(KVKey<Int>("removed"))
        try await mirror.remote.remove(KVKey<Data>("large"))
        try await mirror.remote.set(KVKey<Int>("a"), value: 1)
        try await until { mirror.copyFailure == nil }
        let revision = mirror.revision
        try await mirror.close()
        remote.state.withLock { $0.isDown = true }
        let last = try MirroredKVStore(remote, configuration)
        #expect(try last.numbers == ["a": 1, "kept": 1])
        #expect(last.revision == revision)
        try await last.close()
    }

    @Test("closing throws if the copy cannot be written")
    func closingOnFullDevice() async throws {
        let disk = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 1 << 20)))
        var configuration = MirroredKVStore.Configuration.test
        configuration.copy = .init(at: "/copy", fileSystem: disk)
        let mirror = try await MirroredKVStore(RemoteDouble(), configuration).caughtUp()
        // Larger than the device, and no change follows.
        try await mirror.remote.set(KVKey<Data>("large"), value: Data(repeating: 1, count: 2 << 20))
        try await until { mirror.copyFailure != nil }
        let error = await #expect(throws: KVStoreError.self) { try await mirror.close() }
        #expect(error?.isOutOfSpace == true)
    }

    @Test("a name that no store can have is left out", arguments: [1_025, 70_000])
    func longNames(_ length: Int) async throws {
        let remote = RemoteDouble()
        let name = String(repeating: "x", count: length)
        remote.set(name, 1)
        remote.set("a", 1)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        #expect(try mirror.numbers == ["a": 1])
        remote.set(name + "y", 2)
        try await mirror.wait(for: remote.set("b", 2), upTo: TestDepth.hangLimit)
        #expect(try mirror.numbers == ["a": 1, "b": 2])
        #expect(mirror.copyFailure == nil)
        try await mirror.close()
    }

    @Test("a damaged copy is discarded, and written again")
    func damage() async throws {
        let remote = RemoteDouble()
        for index in 0..<20 { remote.set("\(index)", index) }
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        for index in 0..<20 {
            try await mirror.wait(for: remote.set("\(index)", -index), upTo: TestDepth.hangLimit)
            try await until { mirror.feed.copy?.isIdle == true }
        }
        try await mirror.close()
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.url.path)
        let log = directory.url.appending(path: try #require(files.first { !$0.hasPrefix("#") }))
        var bytes = try Data(contentsOf: log)
        bytes[bytes.count / 2] ^= 0xFF
        try bytes.write(to: log)
        remote.state.withLock { $0.isDown = true }
        let damaged = try MirroredKVStore(remote, configuration)
        #expect(try damaged.numbers.isEmpty && damaged.revision == nil)
        // The opening has repaired the log, but what was lost is not forgotten.
        try await damaged.close()
        let again = try MirroredKVStore(remote, configuration)
        #expect(try again.numbers.isEmpty && again.revision == nil)
        for index in 0..<19 { remote.set("\(index)", nil) }
        remote.state.withLock { $0.isDown = false }
        try await again.wait(upTo: TestDepth.hangLimit)
        try await again.close()
        remote.state.withLock { $0.isDown = true }
        let last = try MirroredKVStore(remote, configuration)
        #expect(try last.numbers == ["19": -19])
        try await last.close()
    }

    @Test("a store that is not a copy is refused and kept")
    func foreignStore() throws {
        do { try FileKVStore(at: directory.url).set(KVKey<Int>("precious"), value: 1) }
        let error = try #require(throws: KVStoreError.self) { try MirroredKVStore(RemoteDouble(), configuration) }
        #expect(error.code == .undecodable && error.operation == .open)
        #expect(try FileKVStore(at: directory.url).get(KVKey<Int>("precious")) == 1)
        let url = try #require(URL(string: "https://example.com/a"))
        let invalid = #expect(throws: KVStoreError.self) { try MirroredKVStore.Configuration.Copy(at: url) }
        #expect(invalid?.operation == .open && invalid?.store == "https://example.com/a")
    }

    @Test(
        "what is damaged and has no header is discarded if it can be a copy, and otherwise kept",
        arguments: [true, false])
    func damageWithoutHeader(_ isCopy: Bool) async throws {
        let log = LogFixture()
        var configuration = MirroredKVStore.Configuration.test
        configuration.copy = .init(at: log.path, fileSystem: log.fileSystem)
        let remote = RemoteDouble()
        if isCopy {
            remote.change([("a", 1), ("b", 1)])
            try await MirroredKVStore(remote, configuration).caughtUp().close()
        }
        var store = try log.open()
        try isCopy ? store.removeValue(named: "") : store.set(KVKey<Int>("precious"), value: 1)
        try store.close()
        let start = try log.bytes().count
        store = try log.open()
        try store.setRawValue([UInt8](repeating: 7, count: 100), named: "last")
        try store.close()
        var bytes = try log.bytes()
        bytes[start + 60] ^= 0xFF
        try log.replace(bytes)
        remote.state.withLock { $0.isDown = true }
        if isCopy {
            let mirror = try MirroredKVStore(remote, configuration)
            #expect(try mirror.numbers.isEmpty && mirror.revision == nil)
            try await mirror.close()
            #expect(try log.open().keys().isEmpty)
        } else {
            let error = #expect(throws: KVStoreError.self) { try MirroredKVStore(remote, configuration) }
            #expect(error?.code == .undecodable && error?.store == "/store")
            #expect(try log.open().keys() == ["precious"])
        }
    }

    @Test("a position without changes reaches the copy, and so do changes without a position")
    func positions() async throws {
        let store = ScriptedStore()
        store.base.set("a", 1)
        store.deliver([.resync])
        let mirror = try await MirroredKVStore(store, configuration).caughtUp()
        store.deliver([], upTo: 9)
        try await mirror.wait(for: 9, upTo: TestDepth.hangLimit)
        try await mirror.close()
        let copy = try MirrorCopy(.init(at: directory.url))
        var (content, position) = try copy.content()
        #expect(content.map { $0.name } == ["a"])
        #expect(position == MirrorState.Position(storeID: "one", revision: 9))
        try copy.close()
        var local = MirroredKVStore.Configuration.test
        local.copy = .init(at: "/local", fileSystem: InMemoryFileSystem())
        let localCopy = try #require(local.copy)
        let other = try await MirroredKVStore(LocalAsyncKVStore(InMemoryKVStore()), local).caughtUp()
        try await other.remote.set(KVKey<Int>("b"), value: 2)
        try await other.close()
        (content, position) = try MirrorCopy(localCopy).content()
        #expect(content.map { $0.name } == ["b"])
        #expect(position == MirrorState.Position())
    }
}

@Suite("The use of a mirror's copy")
struct MirrorCopyUseTests {
    /// Writes that wait while the gate is closed.
    private final class Gate: Sendable {
        private let isClosed = Mutex(false)
        private let waiting = DispatchSemaphore(value: 0)
        let blockedCount = Atomic(0)

        func close() { isClosed.withLock { $0 = true } }

        func open() {
            isClosed.withLock { $0 = false }
            waiting.signal()
        }

        func pass() {
            guard isClosed.withLock({ $0 }) else { return }
            blockedCount.add(1, ordering: .relaxed)
            waiting.wait()
            waiting.signal()
        }
    }

    /// A disk that calls `write` before each write.
    private func disk(
        beforeWriting write: @escaping @Sendable () throws(FileSystemError) -> Void
    ) -> InterceptedFileSystem<InMemoryFileSystem> {
        InterceptedFileSystem(InMemoryFileSystem()) { (call) throws(FileSystemError) in
            // Records that are stored into mapped memory would not pass.
            if call.operation == .map { throw FileSystemError(.map, .notSupported) }
            if call.operation == .write { try write() }
        }
    }

    @Test(
        "a device that does not answer delays no change, and the copy gets the content afterwards",
        arguments: [10, MirrorCopyWriter.limit + 10])
    func slowDevice(_ count: Int) async throws {
        let gate = Gate()
        let disk = disk { () throws(FileSystemError) in gate.pass() }
        let remote = RemoteDouble(pageSize: .max)
        remote.change([("removed", 1), ("kept", 1)])
        var configuration = MirroredKVStore.Configuration.test
        configuration.copy = .init(at: "/copy", fileSystem: disk)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        try await until { mirror.feed.copy?.isIdle == true }
        gate.close()
        remote.set("first", 1)
        try await until { gate.blockedCount.load(ordering: .relaxed) > 0 }
        remote.change((0..<count).map { ("\($0)", $0) })
        remote.set("0", -1)
        let revision = remote.set("removed", nil)
        do {
            defer { gate.open() }
            try await mirror.wait(for: revision, upTo: TestDepth.hangLimit)
        }
        let expected = try mirror.numbers
        #expect(expected.count == count + 2 && expected["0"] == -1)
        try await mirror.close()
        remote.state.withLock { $0.isDown = true }
        let last = try MirroredKVStore(remote, configuration)
        #expect(try last.numbers == expected)
        #expect(last.revision == revision)
        try await last.close()
    }

    @Test("changes that come while a write fails are written without another change")
    func changesDuringFailure() async throws {
        let gate = Gate()
        let isFull = Atomic(false)
        let disk = disk { () throws(FileSystemError) in
            gate.pass()
            if isFull.exchange(false, ordering: .relaxed) { throw FileSystemError(.write, .noSpace) }
        }
        let remote = RemoteDouble()
        var configuration = MirroredKVStore.Configuration.test
        configuration.copy = .init(at: "/copy", fileSystem: disk)
        let mirror = try await MirroredKVStore(remote, configuration).caughtUp()
        try await until { mirror.feed.copy?.isIdle == true }
        gate.close()
        remote.set("a", 1)
        try await until { gate.blockedCount.load(ordering: .relaxed) > 0 }
        do {
            defer { gate.open() }
            isFull.store(true, ordering: .relaxed)
            try await mirror.wait(for: remote.set("b", 1), upTo: TestDepth.hangLimit)
        }
        try await until { mirror.feed.copy?.isIdle == true }
        #expect(mirror.copyFailure == nil)
        try await mirror.close()
        remote.state.withLock { $0.isDown = true }
        let last = try MirroredKVStore(remote, configuration)
        #expect(try last.numbers == ["a": 1, "b": 1])
        try await last.close()
    }

    @Test("a directory has one mirror at a time, in one process and in two", arguments: [false, true])
    func exclusion(_ isOtherProcess: Bool) async throws {
        let directory = TemporaryDirectory()
        let path = try POSIXPath(directory.url)
        // A file system without identity is not found among the stores of the process, as one of another process.
        let other: any POSIXFileSystem =
            isOtherProcess
            ? InterceptedFileSystem(SystemFileSystem()) { (_) throws(FileSystemError) in } : SystemFileSystem()
        let remote = RemoteDouble()
        remote.set("a", 1)
        var configuration = MirroredKVStore.Configuration.test
        configuration.copy = .init(at: path)
        let first = try await MirroredKVStore(remote, configuration).caughtUp()
        var second = configuration
        second.copy = .init(at: path, fileSystem: other)
        for _ in 0..<2 {
            let error = try #require(throws: KVStoreError.self) { try MirroredKVStore(RemoteDouble(), second) }
            #expect(error.isInUse && error.operation == .open)
        }
        let error = #expect(throws: KVStoreError.self) { try FileKVStore(at: path, fileSystem: other) }
        #expect(error?.isInUse == true)
        try await first.wait(for: remote.set("a", 2), upTo: TestDepth.hangLimit)
        try await first.close()
        remote.state.withLock { $0.isDown = true }
        let last = try MirroredKVStore(remote, second)
        #expect(try last.numbers == ["a": 2])
        try await last.close()
        let store = try FileKVStore(at: path)
        #expect(throws: KVStoreError.self) { try MirroredKVStore(remote, configuration) }
        try store.close()
    }
}
