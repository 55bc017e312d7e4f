import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Compaction of a shared store")
struct SharedCompactionTests {
    private let fixture = SharedFixture()
    private let a = KVKey<Int>("a")

    /// Calls a closure once, at the first flush or locking after a new log was created.
    private final class Interruption: Sendable {
        private let operation: FileSystemOperation
        private let isArmed = Atomic(false)
        private let action = Mutex<(@Sendable () throws -> Void)?>(nil)
        private let outcome = Mutex<(any Error)?>(nil)

        init(at operation: FileSystemOperation = .synchronize) {
            self.operation = operation
        }

        func set(_ action: @escaping @Sendable () throws -> Void) { self.action.withLock { $0 = action } }

        var error: (any Error)? { outcome.withLock { $0 } }

        func intercept(_ operation: FileSystemOperation, _ path: POSIXPath?) {
            if operation == .open, let path, path.bytes.starts(with: "#log-new".utf8) {
                isArmed.store(true, ordering: .relaxed)
            }
            guard operation == self.operation, isArmed.exchange(false, ordering: .relaxed) else { return }
            let action = action.withLock { action in
                defer { action = nil }
                return action
            }
            do {
                try action?()
            } catch {
                outcome.withLock { $0 = error }
            }
        }
    }

    private func open(
        _ interruption: Interruption, in process: SharedFixture.Process? = nil
    ) throws -> FileKVStore {
        let process = process ?? fixture.process(1)
        let fileSystem = InterceptedFileSystem(process.fileSystem) { call throws(FileSystemError) in
            interruption.intercept(call.operation, call.path)
        }
        return try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: fixture.options(1))
    }

    private func temporaryFiles() throws -> [String] {
        try fixture.fileSystem.withDirectory(fixture.path) { (directory) throws(FileSystemError) in
            try fixture.fileSystem.entries(of: directory).map { String($0.name) }.filter { $0.hasPrefix("#log-new") }
        }
    }

    @Test("lets other processes write and flush while the new log is written, and keeps what they write")
    func beside() throws {
        let interruption = Interruption()
        let first = try open(interruption)
        let second = try fixture.open(fixture.process(2))
        for value in 0..<100 { try first.set(KVKey<Int>("\(value % 10)"), value: value) }
        interruption.set {
            try second.set(KVKey<Int>("a"), value: 1)
            try second.remove(KVKey<Int>("3"))
            try second.synchronize()
        }
        try first.compact()
        if let error = interruption.error { throw error }
        for store in [first, second, try fixture.open(fixture.process(3))] {
            #expect(try store.read(a) == 1)
            #expect(try store.keys().count == 10)
            #expect(try store.read(KVKey<Int>("9")) == 99)
        }
        #expect(try temporaryFiles() == [])
        #expect(fixture.recorder.issues.isEmpty, "\(fixture.recorder.descriptions)")
    }

    @Test("has on the device, before it renames the new log, what another process has flushed")
    func flushedByAnotherProcess() throws {
        let operations = Mutex<[FileSystemOperation]>([])
        let interruption = Interruption(at: .lock)
        let fileSystem = InterceptedFileSystem(fixture.process(1).fileSystem) { call throws(FileSystemError) in
            interruption.intercept(call.operation, call.path)
            operations.withLock { $0.append(call.operation) }
        }
        let first = try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: fixture.options(1))
        let second = try fixture.open(fixture.process(2))
        for value in 0..<10 { try first.set(a, value: value) }
        // After the last record was copied without the lock.
        interruption.set {
            try second.set(KVKey<Int>("b"), value: 2)
            try second.synchronize()
            operations.withLock { $0 = [] }
        }
        try first.compact()
        if let error = interruption.error { throw error }
        let found = operations.withLock { $0 }
        let rename = try #require(found.firstIndex(of: .rename))
        #expect(found[..<rename].contains(.synchronize), "\(found)")
        #expect(try fixture.open(fixture.process(3)).integers() == ["a": 9, "b": 2])
    }

    @Test("ends without an error if another process compacts the log each time meanwhile")
    func overtaken() throws {
        let (a, b) = (a, KVKey<Int>("b"))
        let second = try fixture.open(fixture.process(2))
        let state = Mutex((isArmed: false, count: 0))
        let fileSystem = InterceptedFileSystem(fixture.process(1).fileSystem) { call throws(FileSystemError) in
            if call.operation == .open, call.path?.bytes.starts(with: "#log-new".utf8) == true {
                state.withLock { $0.isArmed = true }
            }
            guard call.operation == .synchronize else { return }
            let count = state.withLock { state in
                guard state.isArmed else { return 0 }
                state.isArmed = false
                state.count += 1
                return state.count
            }
            guard count > 0 else { return }
            do {
                try second.set(b, value: count)
                try second.compact()
            } catch {
                throw FileSystemError(.synchronize, .ioError, underlying: error)
            }
        }
        let first = try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: fixture.options(1))
        for value in 0..<100 { try first.set(a, value: value) }
        try first.compact()
        let count = state.withLock { $0.count }
        #expect(count > 1)
        try first.set(a, value: 100)
        for store in [first, second, try fixture.open(fixture.process(3))] {
            #expect(try store.integers() == ["a": 100, "b": count])
        }
        #expect(try temporaryFiles() == [])
    }

    @Test("is given up if another process has compacted the log meanwhile, and done again")
    func both() throws {
        let interruption = Interruption()
        let first = try open(interruption)
        let second = try fixture.open(fixture.process(2))
        for value in 0..<100 { try first.set(a, value: value) }
        interruption.set {
            try second.compact()
            try second.set(KVKey<Int>("b"), value: 2)
        }
        try first.compact()
        if let error = interruption.error { throw error }
        for store in [first, second, try fixture.open(fixture.process(3))] {
            #expect(try store.integers() == ["a": 99, "b": 2])
        }
        #expect(try temporaryFiles() == [])
        #expect(fixture.recorder.issues.isEmpty, "\(fixture.recorder.descriptions)")
    }

    @Test("is left to a process that does it already, but only once, since that may be stopped")
    func claimed() throws {
        let (first, second) = try fixture.pair(compactionFloorInBytes: 2_000)
        for value in 0..<10 { try (value.isMultiple(of: 2) ? first : second).set(a, value: value) }
        // The other process is in its slot and says that it compacts the log.
        try fixture.overwrite("#shared", [1, 0, 0, 0, 0, 0, 0, 0], at: 56)
        var largest = 0
        for value in 0..<500 {
            try second.set(a, value: value)
            largest = max(largest, try fixture.bytes("log").count)
        }
        #expect(largest > 4_000 && largest < 9_000, "\(largest)")
        #expect(try fixture.bytes("log").count < 5_000)
        #expect(first.get(a) == 499)
    }

    @Test("is announced in the page while it is under way, and withdraws no announcement of another process")
    func announcement() throws {
        let seen = Mutex<[UInt8]>([])
        let (isOpen, isOvertaken) = (Flag(), Flag())
        let fileSystem = InterceptedFileSystem(fixture.process(1).fileSystem) { call throws(FileSystemError) in
            guard isOpen.isSet, call.operation == .open, call.path?.bytes.starts(with: "#log-new".utf8) == true else {
                return
            }
            do {
                let announced = try fixture.byte(of: "#shared", at: 56)
                seen.withLock { $0.append(announced) }
                if isOvertaken.isSet { try fixture.overwrite("#shared", [2], at: 56) }
            } catch {
                throw FileSystemError(.open, .ioError, underlying: error)
            }
        }
        let options = fixture.options(1, compactionFloorInBytes: 2_000)
        let first = try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: options)
        let second = try fixture.open(fixture.process(2))
        isOpen.set()
        for value in 0..<500 where seen.withLock({ $0.isEmpty }) { try first.set(a, value: value) }
        #expect(try fixture.byte(of: "#shared", at: 56) == 0)
        isOvertaken.set()
        for value in 0..<500 where seen.withLock({ $0.count }) == 1 { try first.set(a, value: value) }
        #expect(try fixture.byte(of: "#shared", at: 56) == 2)
        #expect(seen.withLock { $0 } == [1, 1])
        #expect(fixture.recorder.issues.isEmpty, "\(fixture.recorder.descriptions)")
        withExtendedLifetime(second) {}
    }

    @Test("leaves a file only if the process is killed; it is removed then, but never that of a running process")
    func leftovers() throws {
        let interruption = Interruption()
        let process = fixture.process(1)
        let first = try open(interruption, in: process)
        try first.set(a, value: 1)
        let seen = Mutex<[String]>([])
        interruption.set {
            let third = try fixture.open(fixture.process(3))
            try seen.withLock { $0 = try temporaryFiles() }
            withExtendedLifetime(third) {}
            fixture.kill(process)
        }
        #expect(throws: (any Error).self) { try first.compact() }
        #expect(seen.withLock { $0.count } == 1)
        let second = try fixture.open(fixture.process(2))
        #expect(try temporaryFiles() == [])
        #expect(try second.integers() == ["a": 1])
    }

    /// The store of another process, and the number of its reads so far.
    private func counting() throws -> (store: FileKVStore, count: @Sendable () -> Int) {
        let reads = Counter()
        let fileSystem = InterceptedFileSystem(fixture.process(2).fileSystem) { call throws(FileSystemError) in
            if call.operation == .read { _ = reads.next() }
        }
        let store = try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: fixture.options(2))
        return (store, { reads.next() })
    }

    @Test("lets a process that knows the old log read only what is new to it")
    func tail() throws {
        let first = try fixture.open(fixture.process(1))
        let (second, reads) = try counting()
        // The log is read in steps of a megabyte.
        for number in 0..<20 {
            try first.set(KVKey<[UInt8]>("\(number)"), value: [UInt8](repeating: UInt8(number), count: 500_000))
        }
        #expect(try second.keys().count == 20)
        let entry = try second.entry(named: "7")
        try first.compact()
        try first.set(a, value: 1)
        let before = reads()
        #expect(second.get(a) == 1)
        // The page, the header, and the records after the values.
        #expect(reads() - before <= 12)
        #expect(try second.entry(named: "7") == entry)
        try second.remove(KVKey<Int>("7"))
        #expect(try first.keys().sorted() == second.keys().sorted())
        #expect(try fixture.open(fixture.process(3)).keys().count == 20)
    }

    @Test("lets a process that wrote meanwhile read none of its own records again")
    func ownRecords() throws {
        let interruption = Interruption()
        let first = try open(interruption)
        let (second, reads) = try counting()
        try first.set(a, value: 1)
        interruption.set {
            for number in 0..<20 {
                try second.set(KVKey<[UInt8]>("\(number)"), value: [UInt8](repeating: UInt8(number), count: 500_000))
            }
        }
        try first.compact()
        if let error = interruption.error { throw error }
        let before = reads()
        try second.set(a, value: 2)
        // The page and the header, but not ten megabytes.
        #expect(reads() - before <= 12)
        for store in [first, second, try fixture.open(fixture.process(3))] {
            #expect(try store.read(a) == 2)
            #expect(try store.read(KVKey<[UInt8]>("19"))?.first == 19)
            #expect(try store.keys().count == 21)
        }
        #expect(fixture.recorder.issues.isEmpty, "\(fixture.recorder.descriptions)")
    }

    @Test("lets a process that follows it close the old log outside its locks", arguments: [true, false])
    func closingOfReplacedLog(_ isWritten: Bool) throws {
        let first = try fixture.open(fixture.process(1))
        let caller = pthread_self()
        let closings = Mutex((byCaller: 0, byOthers: 0))
        let fileSystem = InterceptedFileSystem(fixture.process(2).fileSystem) { call throws(FileSystemError) in
            guard call.operation == .close else { return }
            closings.withLock { if pthread_self() == caller { $0.byCaller += 1 } else { $0.byOthers += 1 } }
        }
        let second = try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: fixture.options(2))
        try first.set(a, value: 1)
        #expect(second.get(a) == 1)
        try first.compact()
        try first.set(a, value: 2)
        let before = closings.withLock { $0.byCaller }
        if isWritten { try second.set(KVKey<Int>("b"), value: 1) } else { #expect(second.get(a) == 2) }
        #expect(closings.withLock { $0.byCaller } == before)
        try second.close()
        #expect(closings.withLock { $0.byOthers } == 1)
    }

    @Test("makes a process that has not read all of the old log read all of the new one", arguments: [false, true])
    func behind(_ isWritten: Bool) throws {
        let (first, second) = try fixture.pair()
        for name in ["a", "b", "c"] { try first.set(KVKey<Int>(name), value: 1) }
        #expect(try second.keys().count == 3)
        // What the other process has not read: the new log has no record of it.
        try first.remove(KVKey<Int>("b"))
        try first.compact()
        try first.set(KVKey<Int>("c"), value: 2)
        if isWritten { try second.set(KVKey<Int>("d"), value: 1) }
        #expect(try second.integers() == first.integers())
        #expect(!second.contains(KVKey<Int>("b")))
    }

    @Test(
        "is found whatever the shared page says of where the new records begin", arguments: 0..<8, [48, 4096 - 8])
    func forgedPage(_ number: Int, _ offset: Int) throws {
        let (first, second) = try fixture.pair()
        for name in ["a", "b", "c"] { try first.set(KVKey<Int>(name), value: 1) }
        #expect(try second.keys().count == 3)
        try first.remove(KVKey<Int>("b"))
        try first.compact()
        let size = Int64(try fixture.bytes("log").count)
        let forged: [Int64] = [0, 64, 65, size - 24, size, size + 1, .max, -1]
        var bytes: [UInt8] = []
        bytes.append(integer: forged[number])
        try fixture.overwrite("#shared", bytes, at: Int64(offset))
        #expect(try second.keys().sorted() == ["a", "c"])
        #expect(try fixture.open(fixture.process(3)).keys().sorted() == ["a", "c"])
        #expect(fixture.recorder.issues.isEmpty, "\(fixture.recorder.descriptions)")
    }

    @Test("is not left to another process if the page that would name it cannot be read")
    func unreadablePage() throws {
        let failing = FailingFileSystem(fixture.process(1).fileSystem)
        let store = try FileKVStore(at: fixture.path, fileSystem: failing, options: fixture.options(1))
        let other = try fixture.open(fixture.process(2))
        let handle = store.engine.handle
        let sharing = try #require(handle.sharing)
        #expect(handle.otherProcess == 2)
        failing.fail { operation, path in operation == .read && path == "#shared" ? .ioError : nil }
        #expect(handle.otherProcess == nil)
        #expect(sharing.claimCompaction())
        failing.fail(nil)
        #expect(handle.otherProcess == 2)
        withExtendedLifetime(other) {}
    }

    @Test(
        "by the write that makes it due happens in the background, if the options allow",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func inBackground() async throws {
        var options = fixture.options(1, compactionFloorInBytes: 2_000)
        options.compactsInBackground = true
        // The writes below can keep the lock of the store from the compaction for long.
        options.lockTimeout = TestDepth.hangLimit
        let store = try FileKVStore(at: fixture.path, fileSystem: fixture.process(1).fileSystem, options: options)
        for value in 0..<500 { try store.set(a, value: value) }
        // The log may be as long again when a compaction ends, until the next write finds that one is due.
        while try fixture.bytes("log").count >= 5_000 {
            try store.set(a, value: 499)
            try await Task.sleep(for: .milliseconds(1))
        }
        try store.close()
        #expect(try fixture.open(fixture.process(2)).read(a) == 499)
        #expect(fixture.recorder.issues.isEmpty, "\(fixture.recorder.descriptions)")
    }
}
