import ChildProcesses
import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Behaviour that requires a second process.
@Suite struct ProcessTests {
    @Test(
        "all writes acknowledged before a kill -9 persist, and nothing is torn", .onOwnThreads,
        arguments: 0..<TestDepth.limit(1, deep: 10))
    func killed(_ round: Int) async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        var acknowledged = 0
        for attempt in 0..<2 {
            let base = acknowledged
            let delay = UInt32((round * 7 + attempt * 31) % 60) * 700
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = path as String, base = base as Int, delay = delay as UInt32] in
                let store = try FileKVStore(
                    at: URL(filePath: path + "/store"), options: .init(compactionFloorInBytes: 20_000))
                let log = try SystemFileSystem().open(
                    POSIXPath(path + "/acknowledged"), .writeOnly, options: [.create])
                Thread.detachNewThread {
                    usleep(delay)
                    kill(getpid(), SIGKILL)
                }
                for number in (base + 1)...(base + 10_000_000) {
                    let value = [String](repeating: "value \(number)", count: 5)
                    try store.set(KVKey<[String]>("key \(number % 50)"), value: value)
                    try withUnsafeBytes(of: number) { bytes in
                        try SystemFileSystem().writeFully(log, from: bytes, at: 0)
                    }
                }
            }
            let counterPath = path + "/acknowledged"
            let counter =
                SystemFileSystem().fileExists(atPath: counterPath)
                ? try SystemFileSystem().readFile(POSIXPath(counterPath)) : []
            if counter.count == 8 {
                acknowledged = counter.withUnsafeBytes { $0.loadUnaligned(as: Int.self) }
            }
            let recorder = IssueRecorder()
            let store = try FileKVStore(at: directory.url.appending(path: "store"), options: recorder.options())
            for number in max(1, acknowledged - 49)..<(acknowledged + 1) {
                let value = try store.read(KVKey<[String]>("key \(number % 50)"))
                let expected = [String](repeating: "value \(number)", count: 5)
                // The next one may have been stored without being acknowledged.
                let next = [String](repeating: "value \(number + 50)", count: 5)
                #expect(value == expected || (number + 50 == acknowledged + 1 && value == next), "\(number)")
            }
            #expect(recorder.damage.isEmpty)
        }
    }

    @Test("another process cannot open the store, and the error names the owner", .onOwnThreads)
    func inUse() async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        let store = try FileKVStore(at: directory.url)
        try store.set(KVKey<Int>("a"), value: 1)
        let own = ProcessInfo.processInfo.processIdentifier
        await #expect(processExitsWith: .exitCode(7)) {
            [path = path as String, own = own as Int32] in
            do {
                _ = try FileKVStore(at: URL(filePath: path))
            } catch let error as KVStoreError {
                exit(error.code == .unavailable(.inUse(processID: own)) ? 7 : 8)
            }
        }
    }

    @Test("user defaults set in one process are read in the next", .onOwnThreads)
    func userDefaults() async throws {
        let suite = TemporarySuite()
        let name = suite.name
        await #expect(processExitsWith: .success) { [name = name as String] in
            let store = UserDefaultsKVStore(suiteName: name)
            try store.set(KVKey<Int>("int"), value: 5)
            try store.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 0.25))
            try store.set(KVKey<Int?>("nil"), value: nil)
            try store.set(KVKey<String>("é"), value: "\u{FEFF}\u{1}")
            try store.set(KVKey<Bool>("gone"), value: true)
            try store.remove(KVKey<Bool>("gone"))
        }
        await #expect(processExitsWith: .exitCode(7)) { [name = name as String] in
            let store = UserDefaultsKVStore(suiteName: name)
            let isRight =
                store.get(KVKey<Int>("int")) == 5
                && store.get(KVKey<Date>("date")) == Date(timeIntervalSince1970: 0.25)
                && store.get(KVKey<Int?>("nil")) == .some(.none)
                && store.get(KVKey<String>("é")).map { Array($0.utf8) } == Array("\u{FEFF}\u{1}".utf8)
                && !store.contains(KVKey<Bool>("gone"))
            try store.removeAll()
            try store.set(KVKey<Int>("last"), value: 1)
            exit(isRight ? 7 : 8)
        }
        #expect(try UserDefaultsKVStore(suiteName: name).keys() == ["last"])
    }

    // In a separate process: a lock that is taken twice ends it.
    @Test("an observer of user defaults reads and writes the store that is changing them", .onOwnThreads)
    func observer() async throws {
        let suite = TemporarySuite()
        await #expect(processExitsWith: .exitCode(7)) { [name = suite.name as String] in
            let store = UserDefaultsKVStore(suiteName: name)
            let observed = KVKey<Bool>("observed")
            // The text is set aside, where removing everything keeps it.
            try store.set(KVKey<String>("a"), value: "text")
            try store.set(KVKey<Int>("a"), value: 1)
            var values = store.values(of: observed).makeAsyncIterator()
            guard await values.next() == .some(nil) else { exit(10) }
            let calls = Mutex(0)
            let observer = NotificationCenter.default.addObserver(
                forName: UserDefaults.didChangeNotification, object: nil, queue: nil
            ) { _ in
                let number = calls.withLock { count in
                    count += 1
                    return count
                }
                // Foundation may report the change below too.
                guard number == 1 else { return }
                let isThere = store.get(KVKey<Int>("a")) != nil
                do { try store.set(observed, value: !isThere) } catch { exit(8) }
            }
            try store.removeAll()
            NotificationCenter.default.removeObserver(observer)
            guard store.get(observed) == true, try store.setAside().count == 1 else { exit(9) }
            // The stream has what the observer has stored, and nothing older after it.
            guard await values.next() == true else { exit(11) }
            try store.set(observed, value: false)
            exit(await values.next() == false ? 7 : 12)
        }
        withExtendedLifetime(suite) {}
    }
}

/// The permitted calls of a child that was forked while a store was open, without executing another program.
@Suite("A forked child") struct ForkTests {
    @Test("is refused every write, and does not change the parent's store", .onOwnThreads, arguments: [false, true])
    func refused(_ isShared: Bool) async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        await #expect(processExitsWith: .exitCode(0)) { [path = path as String, isShared = isShared as Bool] in
            let key = KVKey<Int>("a")
            var options = FileKVStore.Options()
            options.sharing = isShared ? .shared : .exclusive
            var store: FileKVStore? = try FileKVStore(at: URL(filePath: path), options: options)
            try store?.set(key, value: 1)
            var subscription = store?.subscribe(to: .prefix(""))
            let fork = unsafeBitCast(
                try #require(dlsym(nil, "fork")), to: (@convention(c) () -> Int32).self)
            let child = fork()
            if child == 0 {
                subscription = nil
                let changes: [(FileKVStore?) throws -> Void] = [
                    { try $0?.set(key, value: 99) }, { try $0?.remove(key) }, { try $0?.removeAll() },
                    { try $0?.compact() }, { try $0?.synchronize() },
                    { try $0?.batch { try $0.set(key, value: 98) } },
                ]
                for (number, change) in changes.enumerated() {
                    guard code({ try change(store) }) == .unavailable(.forked) else { _exit(Int32(number) + 1) }
                }
                guard store?.get(key) == 1 else { _exit(20) }
                store = nil
                guard code({ _ = try FileKVStore(at: URL(filePath: path)) })?.unavailability != nil else { _exit(21) }
                _exit(0)
            }
            for number in 2...500 { try store?.set(key, value: number) }
            var status: Int32 = 0
            _ = waitpid(child, &status, 0)
            try store?.set(KVKey<Int>("b"), value: 1)
            try store?.synchronize()
            if isShared {
                // The parent still observes the store.
                let page = try SystemFileSystem().readFile(POSIXPath(path + "/#shared"))
                let marks = page[SharedPageContent.observersOffset...].prefix(SharedPageContent.observersSize)
                guard marks.contains(where: { $0 != 0 }) else { exit(101) }
            }
            withExtendedLifetime(subscription) {}
            store = nil
            let again = try FileKVStore(at: URL(filePath: path))
            guard again.get(key) == 500, again.get(KVKey<Int>("b")) == 1 else { exit(100) }
            exit(status == 0 ? 0 : 1 + (status >> 8) & 0xFF)
        }
    }

    @Test("waits for no reader of its parent", .onOwnThreads)
    func readers() async throws {
        await #expect(processExitsWith: .success) {
            let domain = ReadDomain()
            let isInside = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                let section = domain.enter()
                isInside.signal()
                sleep(600)
                section.leave()
            }
            isInside.wait()
            func isOver() -> Bool {
                var period = GracePeriod.begin()
                return period?.isOver() ?? false
            }
            guard !isOver() else { exit(2) }
            let fork = unsafeBitCast(
                try #require(dlsym(nil, "fork")), to: (@convention(c) () -> Int32).self)
            let child = fork()
            if child == 0 { _exit(isOver() ? 0 : 3) }
            var status: Int32 = 0
            _ = waitpid(child, &status, 0)
            exit((status >> 8) & 0xFF)
        }
    }
}

/// A child process has the parent's open files between `fork` and the execution of another program.
@Suite("A lock whose open file a child process has inherited") struct InheritedDescriptorTests {
    private let fileSystem = InMemoryFileSystem()

    /// Duplicates every descriptor, as `fork` does.
    private func inherit() -> [Descriptor] {
        (0..<64).compactMap { number in
            do { return try fileSystem.duplicate(Descriptor(rawValue: Int32(number))) } catch { return nil }
        }
    }

    private func options(_ sharing: FileKVStore.Sharing) -> FileKVStore.Options {
        var options = IssueRecorder().options()
        options.sharing = sharing
        return options
    }

    @Test("is released when the store is closed", arguments: FileKVStore.Sharing.allCases)
    func closing(_ sharing: FileKVStore.Sharing) throws {
        var inherited: [Descriptor] = []
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options(sharing))
            try store.set(KVKey<Int>("a"), value: 1)
            inherited = inherit()
        }
        #expect(!inherited.isEmpty)
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options(.exclusive))
        #expect(try store.read(KVKey<Int>("a")) == 1)
    }

    @Test("is released when the file store is closed")
    func storeLock() throws {
        try fileSystem.makeDirectories("/files")
        try fileSystem.withDirectory("/files") { directory throws(FileSystemError) in
            var lock: StoreLock? = try StoreLock(.exclusive, at: directory, on: fileSystem)
            let inherited = inherit()
            withExtendedLifetime(lock) {}
            lock = nil
            _ = try StoreLock(.exclusive, at: directory, on: fileSystem)
            for descriptor in inherited { fileSystem.discard(descriptor) }
        }
    }
}

@Suite("A store after a kill followed by a power cut")
struct KilledProcessTests {
    private struct Lost: Error {}

    private let key = KVKey<Int>("count")

    private func open(on fileSystem: any POSIXFileSystem) throws -> FileKVStore {
        var options = IssueRecorder().options()
        options.compactsInBackground = false
        options.reserveLittle()
        return try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    @Test("durable writes survive a process killed after it renamed the compacted log")
    func renamed() async throws {
        try await forEachCrash(
            limit: TestDepth.limit(60, deep: 100_000),
            prepare: { fileSystem in
                let store = try open(on: fileSystem)
                try store.set(key, value: 1)
            },
            run: { fileSystem, run in
                let plan = FaultPlan([.on(.rename, do: .crash(effect: .done))])
                let first = FaultingFileSystem(fileSystem, plan: plan)
                do {
                    let store = try open(on: first)
                    try store.set(key, value: 2)
                    #expect(throws: KVStoreError.self) { try store.compact() }
                }
                try plan.requireAllFired()
                // The first process recorded nothing as durable, so opening makes the writes durable.
                let store = try open(on: FaultingFileSystem(fileSystem))
                guard try store.read(key) == 2 else { throw Lost() }
                try store.synchronize()
                run.acknowledge("2")
                try store.set(key, value: 3)
                try store.synchronize()
                run.acknowledge("3")
            },
            recover: { fileSystem, crash in
                let value = try open(on: fileSystem).read(key) ?? 0
                if crash.acknowledged.contains("3"), value < 3 { throw Lost() }
                if crash.acknowledged.contains("2"), value < 2 { throw Lost() }
            })
    }
}
