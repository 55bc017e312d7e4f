import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

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
