import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing
@testable import ForgeKVStore

@Suite("A closed store distinguishes damage to its last record from a torn write")
struct ClosingTests {
    private let fileSystem = InMemoryFileSystem()
    private let recorder = IssueRecorder()
    private let a = KVKey<String>("a")
    private let b = KVKey<String>("b")

    private func open(
        on fileSystem: (any POSIXFileSystem)? = nil, _ sharing: FileKVStore.Sharing = .exclusive
    ) throws -> FileKVStore {
        var options = recorder.options()
        options.sharing = sharing
        options.reserveLittle()
        return try FileKVStore(at: "/store", fileSystem: fileSystem ?? self.fileSystem, options: options)
    }

    /// Flips a bit of the last text in the log, and expects it to be set aside and the other to be served.
    private func expectDamage(of text: String) throws {
        let log = try fileSystem.readFile("/store/log")
        let place = try #require(log.firstRange(of: Array(text.utf8), after: LogHeader.size))
        let descriptor = try fileSystem.open("/store/log", .readWrite)
        try withUnsafeBytes(of: log[place] ^ 1) { (byte) throws(FileSystemError) in
            try fileSystem.writeFully(descriptor, from: byte, at: Int64(place))
        }
        try fileSystem.close(descriptor)
        let store = try open()
        #expect(try store.read(a) == "first")
        #expect(try store.read(b) != text)
        #expect(recorder.damage.map(\.kind) == [.records], "\(recorder.descriptions)")
        #expect(try store.damageReports().count == 1)
    }

    @Test(
        "after a write, and after a flush", arguments: [false, true], [FileKVStore.Sharing.exclusive, .shared])
    func written(isFlushed: Bool, _ sharing: FileKVStore.Sharing) throws {
        do {
            let store = try open(on: nil, sharing)
            try store.set(a, value: "first")
            try store.set(b, value: "second")
            if isFlushed { try store.synchronize() }
        }
        try expectDamage(of: "second")
    }

    @Test("after a sharing process that only read was the last to close it")
    func readBySharing() throws {
        let shared = SharedFixture()
        do {
            let reader = try shared.open(shared.process(1))
            do {
                let writer = try shared.open(shared.process(2))
                try writer.set(a, value: "first")
                try writer.set(b, value: "second")
                try writer.synchronize()
            }
            #expect(try reader.read(b) == "second")
        }
        try fileSystem.makeDirectories("/store")
        let descriptor = try fileSystem.open("/store/log", .readWrite, options: [.create], permissions: .privateFile)
        try fileSystem.writeBytes(try shared.bytes("log"), to: descriptor, at: 0)
        try fileSystem.close(descriptor)
        try expectDamage(of: "second")
    }

    @Test("after its log was compacted during writes")
    func compacted() throws {
        do {
            let watched = FailingFileSystem(fileSystem)
            let store = try open(on: watched)
            try store.set(a, value: "first")
            let isWritten = Atomic(false)
            watched.fail { [b] operation, _ in
                guard operation == .synchronize, !isWritten.exchange(true, ordering: .relaxed) else { return nil }
                do { try store.set(b, value: "second") } catch { return .ioError }
                return nil
            }
            try store.compact()
            watched.fail(nil)
        }
        try expectDamage(of: "second")
    }

    @Test("although its log could not be compacted")
    func compactedInVain() throws {
        let plan = FaultPlan([.on(.rename, call: 3, do: .fail(.noSpace))])
        do {
            let store = try open(on: FaultingFileSystem(fileSystem, plan: plan))
            try store.set(a, value: "first")
            for count in 0..<20 { try store.set(b, value: String(repeating: "x", count: 400 + count)) }
            try store.set(b, value: "second")
        }
        try plan.requireAllFired()
        try expectDamage(of: "second")
    }

    @Test("after a process was killed, by the next one")
    func killed() throws {
        do {
            let killed = FaultingFileSystem(fileSystem)
            let store = try open(on: killed)
            try store.set(a, value: "first")
            try store.set(b, value: "second")
            killed.crash()
        }
        do { _ = try open().get(a) }
        try expectDamage(of: "second")
    }
}

extension [UInt8] {
    /// The index of the first occurrence of some bytes after an index.
    fileprivate func firstRange(of bytes: [UInt8], after start: Int) -> Int? {
        indices.dropFirst(start).first { self[$0...].starts(with: bytes) }
    }
}

@Suite("Closing a store explicitly") struct ExplicitClosingTests {
    private let key = KVKey<Int>("a")

    @Test("reads continue, other calls throw, and the store can be reopened", arguments: FileKVStore.Sharing.allCases)
    func closed(_ sharing: FileKVStore.Sharing) throws {
        let shared = SharedFixture()
        let process = shared.process(1)
        let store = try shared.open(process, sharing)
        let second = try shared.open(process, sharing)
        try store.set(key, value: 1)
        try store.close()
        try store.close()

        #expect(second.get(key) == 1)
        #expect(try second.read(key) == 1)
        #expect(second.contains(key))
        #expect(try second.keys() == ["a"])
        #expect(try second.snapshot().count == 1)
        let calls: [(String, () throws -> Void)] = [
            ("set", { try second.set(self.key, value: 2) }),
            ("set text", { try second.set(KVKey<[String]>("b"), value: ["b"]) }),
            ("set raw", { try second.setRawValue([1], named: "b") }),
            ("remove", { try second.remove(self.key) }),
            ("remove raw", { try second.removeValue(named: "a") }),
            ("remove all", { try second.removeAll() }),
            ("update", { try second.update(self.key, default: 0) { $0 += 1 } }),
            ("commit nothing", { try second.commit(KVBatch()) }),
            ("synchronize", { try second.synchronize() }),
            ("compact", { try second.compact() }),
        ]
        for (name, call) in calls { #expect(code(call) == .unavailable(.closed), "\(name)") }

        // Reopened although both objects still exist; the closed ones show the last content.
        let third = try shared.open(process, sharing)
        try third.set(key, value: 3)
        #expect(try third.read(key) == 3)
        #expect(second.get(key) == 1)
        try third.close()
        #expect(shared.recorder.descriptions.isEmpty)
    }

    @Test("another process can open the store as soon as it is closed", arguments: FileKVStore.Sharing.allCases)
    func handedOver(_ sharing: FileKVStore.Sharing) throws {
        let shared = SharedFixture()
        let first = shared.process(1)
        let store = try shared.open(first, sharing)
        try store.set(key, value: 1)
        let other = shared.process(2)
        #expect(code { _ = try shared.open(other, .exclusive) } == .unavailable(.inUse(processID: 1)))
        try store.close()
        let next = try shared.open(other, .exclusive)
        #expect(try next.read(key) == 1)
        try next.set(key, value: 2)
        #expect(store.get(key) == 1)
        try next.close()
    }

    @Test("all acknowledged writes are durable after closing, despite concurrent writes")
    func besideWriters() throws {
        for _ in 0..<20 {
            let fileSystem = InMemoryFileSystem()
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            let acknowledged = Atomic(0)
            DispatchQueue.concurrentPerform(iterations: 3) { thread in
                if thread == 0 {
                    do { try store.close() } catch { Issue.record(error) }
                } else {
                    for number in 0..<200 {
                        do {
                            try store.set(KVKey<Int>("\(thread).\(number)"), value: number)
                            acknowledged.wrappingAdd(1, ordering: .relaxed)
                        } catch {
                            if (error as? KVStoreError)?.code != .unavailable(.closed) { Issue.record(error) }
                        }
                    }
                }
            }
            // The store of another process, which sees only the content of the log.
            let reopened = try FileKVStore(at: "/store", fileSystem: fileSystem.process())
            #expect(try reopened.keys().count == acknowledged.load(ordering: .relaxed))
        }
    }

    @Test("a failed flush is thrown, and the store is closed nevertheless")
    func failedFlush() throws {
        let fileSystem = FailingFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try store.set(key, value: 1)
        fileSystem.fail(.synchronize)
        #expect(code { try store.close() } == .durabilityUnknown)
        fileSystem.fail(nil)
        #expect(code { try store.set(key, value: 2) } == .unavailable(.closed))
        #expect(try FileKVStore(at: "/store", fileSystem: fileSystem).read(key) == 1)
    }

    @Test(
        "calls of close during and after a failing one throw its error",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func closingTwice() throws {
        let fileSystem = FailingFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try store.set(key, value: 1)
        let isFlushing = DispatchSemaphore(value: 0)
        let mayGoOn = DispatchSemaphore(value: 0)
        fileSystem.fail { operation, _ in
            guard operation == .synchronize else { return nil }
            isFlushing.signal()
            _ = mayGoOn.wait(timeout: .now() + 20)
            return .ioError
        }
        let codes = Mutex<[KVStoreError.Code?]>([])
        let group = DispatchGroup()
        func closeInThread() {
            group.enter()
            Thread.detachNewThread {
                let result = code { try store.close() }
                codes.withLock { $0.append(result) }
                group.leave()
            }
        }
        closeInThread()
        isFlushing.wait()
        closeInThread()
        mayGoOn.signal()
        group.wait()
        #expect(codes.withLock { $0 } == [.durabilityUnknown, .durabilityUnknown])
        fileSystem.fail(nil)
        #expect(code { try store.close() } == .durabilityUnknown)
    }

    @Test(
        "closing from a report made by closing throws instead of deadlocking",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func fromClosing() throws {
        let fileSystem = FailingFileSystem()
        let opened = Mutex<FileKVStore?>(nil)
        let codes = Mutex<[KVStoreError.Code?]>([])
        var options = FileKVStore.Options()
        options.onIssue = { _ in
            let result = code { try opened.withLock { $0 }?.close() }
            codes.withLock { $0.append(result) }
        }
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        opened.withLock { $0 = store }
        // Mostly outdated, so closing compacts the log, which fails and is reported.
        for number in 0..<1000 { try store.set(key, value: number) }
        fileSystem.fail { operation, path in operation == .open && path == "#log-new" ? .ioError : nil }
        try store.close()
        #expect(codes.withLock { $0 }.map { $0?.unavailability != nil } == [true])
        fileSystem.fail(nil)
        #expect(try FileKVStore(at: "/store", fileSystem: fileSystem).read(key) == 999)
    }

    @Test(
        "closing from a background job's report of an issue throws instead of deadlocking",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func fromHandler() throws {
        let fileSystem = FailingFileSystem()
        let opened = Mutex<FileKVStore?>(nil)
        let codes = Mutex<[KVStoreError.Code?]>([])
        let reported = DispatchSemaphore(value: 0)
        var options = FileKVStore.Options(compactionFloorInBytes: 0)
        options.onIssue = { issue in
            guard case .compactionFailed = issue else { return }
            let result = code { try opened.withLock { $0 }?.close() }
            codes.withLock { $0.append(result) }
            reported.signal()
        }
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        opened.withLock { $0 = store }
        fileSystem.fail { operation, path in operation == .open && path == "#log-new" ? .ioError : nil }
        for number in 0..<100 { try store.set(key, value: number) }
        reported.wait()
        #expect(codes.withLock { $0.first??.unavailability } != nil)
        fileSystem.fail(nil)
        try store.close()
    }

    @Test("closing from a report of a call closes the store", arguments: FileKVStore.Sharing.allCases)
    func fromCall(_ sharing: FileKVStore.Sharing) throws {
        let opened = Mutex<FileKVStore?>(nil)
        let codes = Mutex<[KVStoreError.Code?]>([])
        var options = IssueRecorder().options()
        options.sharing = sharing
        options.onIssue = { _ in
            let result = code { try opened.withLock { $0 }?.close() }
            codes.withLock { $0.append(result) }
        }
        let fileSystem = InMemoryFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        opened.withLock { $0 = store }
        try store.set(KVKey<String>("a"), value: "text")
        #expect(store.get(key) == nil)
        #expect(codes.withLock { $0 } == [nil])
        #expect(code { try store.set(key, value: 1) } == .unavailable(.closed))
        let next = try FileKVStore(at: "/store", fileSystem: fileSystem.process())
        #expect(try next.read(KVKey<String>("a")) == "text")
    }

    @Test("withStore closes the store after success and after an error, and throws the first error")
    func withStore() async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("closing-\(UUID())")
        defer { do { try FileManager.default.removeItem(at: directory) } catch { Issue.record(error) } }
        var kept: [FileKVStore] = []
        let value = try FileKVStore.withStore(at: directory) { store in
            kept.append(store)
            try store.set(key, value: 1)
            return store.get(key)
        }
        #expect(value == 1)
        struct Failed: Error {}
        await #expect(throws: Failed.self) {
            try await FileKVStore.withStore(at: directory) { store in
                kept.append(store)
                try store.set(key, value: 2)
                await Task.yield()
                throw Failed()
            }
        }
        for store in kept { #expect(code { try store.set(key, value: 3) } == .unavailable(.closed)) }
        #expect(try FileKVStore.withStore(at: directory) { try $0.read(key) } == 2)
    }

    @Test("withStore throws the error of closing, unless its body has thrown before")
    func withStoreFailing() async throws {
        struct Failed: Error {}
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("closing-\(UUID())")
        for fails in [false, true] {
            func write(_ store: FileKVStore) throws {
                try store.set(key, value: 1)
                try FileManager.default.removeItem(at: directory)
                if fails { throw Failed() }
            }
            let error = #expect(throws: (any Error).self) { try FileKVStore.withStore(at: directory, write) }
            let later = await #expect(throws: (any Error).self) {
                try await FileKVStore.withStore(at: directory) { store in
                    await Task.yield()
                    try write(store)
                }
            }
            for error in [error, later] {
                #expect(fails ? error is Failed : (error as? KVStoreError)?.code == .noStore)
            }
        }
    }
}

@Suite("A store that another process has open") struct InUseTests {
    @Test("is like one that this process has open, if one of the two excludes others")
    func onlyUse() throws {
        let fileSystem = InMemoryFileSystem()
        let plain = IssueRecorder().options()
        var only = plain
        only.isOnlyUse = true
        for (first, second) in [(only, plain), (plain, only), (only, only)] {
            let owner = try FileKVStore(at: "/store", fileSystem: fileSystem, options: first)
            let error = #expect(throws: KVStoreError.self) {
                try FileKVStore(at: "/store", fileSystem: fileSystem, options: second)
            }
            #expect(error?.code == .unavailable(.inUse(processID: plain.processes.own.id)))
            try owner.close()
        }
    }

    @Test("throws an error that says so in one line, names the process and has a property of its own")
    func error() throws {
        let fileSystem = InMemoryFileSystem()
        var options = IssueRecorder().options()
        options.processes = ProcessTable(own: ProcessIdentity(id: 812), isRunning: { _ in true })
        let owner = try FileKVStore(at: "/store", fileSystem: fileSystem.process(), options: options)
        let error = #expect(throws: KVStoreError.self) {
            try FileKVStore(at: "/store", fileSystem: fileSystem.process(), options: IssueRecorder().options())
        }
        withExtendedLifetime(owner) {}
        #expect(error?.isInUse == true)
        #expect(error?.description == "open in /store: unavailable: in use by process 812")
        #expect(KVStoreError(.unavailable(.closed), .set).isInUse == false)
    }

    @Test("does not become another error if its process is not known")
    func unknownProcess() throws {
        let memory = InMemoryFileSystem()
        let owner = try FileKVStore(at: "/store", fileSystem: memory.process(), options: IssueRecorder().options())
        let failing = FailingFileSystem(memory.process())
        failing.fail { operation, path in operation == .read && path == "#lock" ? .ioError : nil }
        let error = #expect(throws: KVStoreError.self) {
            try FileKVStore(at: "/store", fileSystem: failing, options: IssueRecorder().options())
        }
        withExtendedLifetime(owner) {}
        #expect(error?.code == .unavailable(.inUse(processID: nil)))
    }
}
