import ChildProcesses
import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// One after the other, because each measures the whole process.
@Suite("Calls that wait for a directory that another program locks", .serialized)
struct WaitingTests {
    /// In a process of its own, because other tests block Swift's threads.
    @Test("neither Swift's tasks nor the calls of another store wait with them", .onOwnThreads)
    func heartbeat() async {
        await #expect(processExitsWith: .success) { try await checkHeartbeatBesideLockedDirectory() }
    }

    /// A change of the name `d/f`, or of another one in `d`.
    enum Change: CaseIterable {
        case save, create, conditionalSave, delete, deleteDirectory, deleteAll, move, copy, batch, commit

        func make(in store: DiskFileStore, source: URL) async throws {
            switch self {
            case .save: try await store.save(Data("new".utf8), to: "d/f")
            case .create: try await store.save(Data("new".utf8), to: "d/g", overwrite: false)
            case .conditionalSave:
                let revision = try await store.info("d/f").revision
                try await store.save(Data("new".utf8), to: "d/f", if: .unchanged(try #require(revision)))
            case .delete: try await store.delete("d/f")
            case .deleteDirectory: try await store.deleteDirectory("d/e")
            case .deleteAll: try await store.deleteAll()
            case .move: try await store.move(from: source, to: "d/f")
            case .copy: try await store.copy(from: source, to: "d/f", overwrite: true)
            case .batch: try await store.batch { $0.save(Data("new".utf8), to: "d/f") }
            case .commit: try await store.write(to: "d/f") { try await $0.write(Data("new".utf8)) }
            }
        }
    }

    @Test("a change throws at its deadline, names the directory, and has changed nothing", arguments: Change.allCases)
    func deadline(change: Change) async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(
            root: directory.url("store"), options: FileStoreOptions(durability: .none, deadline: .seconds(3)))
        try await store.save(Data("old".utf8), to: "d/f")
        try await store.createDirectory("d/e")
        try directory.write("source", to: "source")
        let before = try directory.tree("store/d")
        let whole = try directory.tree("store")
        let locked = change == .deleteAll ? "store" : "store/d"
        let lock = try DirectoryLock(directory.path(locked))

        let start = ContinuousClock.now
        let error = await #expect(throws: FileStoreError.self) {
            try await change.make(in: store, source: directory.url("source"))
        }
        #expect(error?.code == .deadlineExceeded(.directoryLock))
        #expect((error?.underlying as? FileSystemError)?.path == directory.path(locked))
        #expect(ContinuousClock.now - start >= .seconds(3))
        #expect(try directory.tree("store/d") == before)
        #expect(try directory.read("source") == "source")

        lock.release()
        try await change.make(in: store, source: directory.url("source"))
        #expect(try directory.tree("store") != whole)
    }

    @Test("a cancelled change leaves at once, and a change without a deadline waits until the lock is free")
    func cancellation() async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"), options: FileStoreOptions(deadline: nil))
        try await store.save(Data("old".utf8), to: "f")
        let before = try directory.tree("store")
        let lock = try DirectoryLock(directory.path("store"))
        let cancelled = Task { try await store.save(Data("cancelled".utf8), to: "f") }
        // The file of the save waits beside its key.
        while try directory.tree("store").count == before.count { await Task.yield() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(try directory.tree("store") == before)

        // The first object knows that the directory is locked, and stages no file.
        let other = DiskFileStore(root: directory.url("store"), options: FileStoreOptions(deadline: nil))
        let waiting = Task { try await other.save(Data("new".utf8), to: "f") }
        while try directory.tree("store").count == before.count { await Task.yield() }
        lock.release()
        try await waiting.value
        #expect(try await store.load("f") == Data("new".utf8))
    }

    @Test("saves stage no file while the directory is known to be locked")
    func stagedFiles() async throws {
        let directory = try TemporaryDirectory()
        let (staged, locks) = (CallCounter(), CallCounter())
        let counting = InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
            if call.operation == .lock { try locks.countOrFail(.lock, nil, .ioError) }
            guard call.operation == .open, let name = call.path?.splitLast().name else { return }
            if name.bytes.starts(with: Array("#tmp".utf8)) { try staged.countOrFail(.open, nil, .ioError) }
        }
        let store = DiskFileStore(
            root: directory.url("store"), fileSystem: counting,
            options: FileStoreOptions(durability: .none, deadline: nil))
        try await store.save(Data("old".utf8), to: "d/f")
        let before = staged.count
        let lock = try DirectoryLock(directory.path("store/d"))
        let save: @Sendable () async throws -> Void = { try await store.save(Data("new".utf8), to: "d/f") }
        let batch: @Sendable () async throws -> Void = {
            try await store.batch { $0.save(Data("new".utf8), to: "d/f") }
        }
        for change in [save, batch, save, batch] {
            let start = locks.count
            let waiting = Task { try await change() }
            // An attempt makes two.
            while locks.count < start + 10 { await Task.yield() }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
        #expect(staged.count == before + 1)
        lock.release()
        try await save()
        #expect(staged.count == before + 2)
    }

    @Test("a cancelled save that waits for a locked directory leaves, although all threads wait for the device")
    func cancellationOnStuckDevice() async throws {
        let directory = try TemporaryDirectory()
        let root = directory.path("store")
        let store = DiskFileStore(root: directory.url("store"), options: FileStoreOptions(deadline: nil))
        try await store.save(Data("old".utf8), to: "f")
        let before = try directory.tree("store")
        let lock = try DirectoryLock(root)
        let waiting = Task { try await store.save(Data("cancelled".utf8), to: "f") }
        while try directory.tree("store").count == before.count { await Task.yield() }

        let gate = DispatchSemaphore(value: 0)
        let lane = BlockingLane.lane(of: root)
        let begun = CallCounter()
        let stuck = (0..<lane.limit).map { _ in
            Task {
                await lane.run {
                    do { try begun.countOrFail(.open, nil, .ioError) } catch {}
                    gate.wait()
                }
            }
        }
        while begun.count < stuck.count { await Task.yield() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        for _ in stuck { gate.signal() }
        for task in stuck { await task.value }
        while try directory.tree("store") != before { await Task.yield() }
        lock.release()
    }

    @Test("calls on a device that does not answer throw at their deadline, and take no thread of another store")
    func stuckDevice() async throws {
        let directory = try TemporaryDirectory()
        let gate = DispatchSemaphore(value: 0)
        let isStuck = Atomic(false)
        let stuck = InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
            if call.operation == .write, isStuck.load(ordering: .relaxed) { gate.wait() }
        }
        let store = DiskFileStore(
            root: directory.url("stuck"), fileSystem: stuck, options: FileStoreOptions(deadline: .seconds(1)))
        let other = DiskFileStore(root: directory.url("other"))
        try await other.save(Data(), to: "f")
        isStuck.store(true, ordering: .relaxed)

        let saves = (0..<200).map { _ in Task { try await store.save(Data("new".utf8), to: "f") } }
        try await other.save(Data("new".utf8), to: "f")
        var awaited: [FileStoreError.Awaited: Int] = [:]
        for save in saves {
            let error = await #expect(throws: FileStoreError.self) { try await save.value }
            if case .deadlineExceeded(let reason) = error?.code { awaited[reason, default: 0] += 1 }
        }
        #expect(awaited.values.reduce(0, +) == saves.count)
        #expect(Set(awaited.keys) == [.device, .thread])
        isStuck.store(false, ordering: .relaxed)
        for _ in saves { gate.signal() }
        // A write that ends after its deadline does not take effect, and leaves nothing.
        let patient = DiskFileStore(root: directory.url("stuck"))
        while try await !patient.list(in: "").isEmpty { await Task.yield() }
        await #expect(performing: { try await patient.load("f") }, throws: hasCode(.notFound))
    }

    @Test("calls on an actor leave it only to wait, and large contents are not copied on it")
    func callsOnActor() async throws {
        let directory = try TemporaryDirectory()
        let store = DiskFileStore(root: directory.url("store"), options: FileStoreOptions(durability: .none))
        try await store.save(Data("content".utf8), to: "small")
        try await store.save(Data(count: 100_000), to: "large")
        let actor = CountedActor()
        #expect(try await actor.hops { try await store.save(Data("content".utf8), to: "small") } == 1)
        #expect(try await actor.hops { _ = try await store.load("large") } == 1)
        let probe = LazyStoreDirectory(directory.path("store"), of: .files, on: SystemFileSystem())
        _ = try probe.existing()
        guard try probe.openCachedFile(try RelativeKey("small")) != nil else {
            print("NOT RUN: reads without waiting, which this system or file system does not have")
            return
        }
        #expect(try await actor.hops { _ = try await store.load("small") } == 0)
        #expect(try await actor.hops { _ = try await store.reader(for: "small").read(0..<7) } == 0)
    }

    @Test("reads of what the system has in memory need no thread")
    func cachedReads() async throws {
        let directory = try TemporaryDirectory()
        let root = directory.path("store")
        let store = DiskFileStore(root: directory.url("store"))
        try await store.save(Data("content".utf8), to: "d/f")
        let probe = LazyStoreDirectory(root, of: .files, on: SystemFileSystem())
        _ = try probe.existing()
        guard try probe.openCachedFile(try RelativeKey("d/f")) != nil else {
            print("NOT RUN: reads without waiting, which this system or file system does not have")
            return
        }

        let gate = DispatchSemaphore(value: 0)
        let lane = BlockingLane.lane(of: root)
        let begun = CallCounter()
        let stuck = (0...lane.limit).map { _ in
            Task {
                await lane.run {
                    do { try begun.countOrFail(.open, nil, .ioError) } catch {}
                    gate.wait()
                }
            }
        }
        // One more than there are threads, so that a call that needs one waits.
        while begun.count + lane.waitingCount < stuck.count { await Task.yield() }
        #expect(try await store.load("d/f") == Data("content".utf8))
        #expect(try await store.info("d/f").sizeInBytes == 7)
        let reader = try await store.reader(for: "d/f")
        #expect(try await reader.read(3..<7) == Data("tent".utf8))
        for _ in stuck { gate.signal() }
        for task in stuck { await task.value }
    }
}

/// An actor that counts the jobs of its executor.
private actor CountedActor {
    private final class Executor: SerialExecutor {
        let count = Atomic(0)
        private let queue = DispatchQueue(label: "counted")

        func enqueue(_ job: consuming ExecutorJob) {
            count.add(1, ordering: .relaxed)
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
        }
    }

    private let executor = Executor()

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// How often the actor goes on after it was left.
    func hops(of body: nonisolated(nonsending) @Sendable () async throws -> Void) async throws -> Int {
        let before = executor.count.load(ordering: .relaxed)
        try await body()
        return executor.count.load(ordering: .relaxed) - before
    }
}

/// Saves that wait for a locked directory, beside Swift's tasks and another store.
private func checkHeartbeatBesideLockedDirectory() async throws {
    /// Tells threads that are free from ones that wait for the lock, on a busy machine too.
    let limit = Duration.seconds(4)
    let directory = try TemporaryDirectory()
    let locked = DiskFileStore(root: directory.url("locked"))
    let other = DiskFileStore(root: directory.url("other"))
    try await other.save(Data(), to: "f")
    var revisions: [FileRevision] = []
    for number in 0..<8 {
        revisions.append(try #require(try await locked.save(Data(), to: "\(number)", if: .absent).revision))
    }
    let lock = try DirectoryLock(directory.path("locked"))

    let heartbeat = Heartbeat()
    let saves = revisions.enumerated().map { number, revision in
        Task { try await locked.save(Data("new".utf8), to: "\(number)", if: .unchanged(revision)) }
    }
    let beating = Task { await heartbeat.run() }
    var longest = Duration.zero
    for number in 0..<20 {
        let start = ContinuousClock.now
        try await other.save(Data("\(number)".utf8), to: "f")
        longest = max(longest, ContinuousClock.now - start)
        try await Task.sleep(for: .milliseconds(100))
    }
    beating.cancel()
    let gap = await beating.value
    print("the longest gap of the heartbeat: \(gap), the longest save in the other store: \(longest)")
    lock.release()

    #expect(gap < limit)
    #expect(longest < limit)
    for save in saves { _ = try await save.value }
}

/// A task that beats every 20 milliseconds, and the longest time between two beats.
private struct Heartbeat {
    private let start = ContinuousClock.now

    func run() async -> Duration {
        var longest = Duration.zero
        var last = start
        while !Task.isCancelled {
            do { try await Task.sleep(for: .milliseconds(20)) } catch {}
            let now = ContinuousClock.now
            longest = max(longest, now - last)
            last = now
        }
        return longest
    }
}

/// The lock of a directory, held as another program would hold it.
private final class DirectoryLock: Sendable {
    private let descriptor: Mutex<Descriptor?>

    init(_ path: POSIXPath) throws {
        let descriptor = try SystemFileSystem().open(path, .readOnly, options: [.directory], permissions: [])
        try SystemFileSystem().lock(descriptor, .exclusive, waiting: false)
        self.descriptor = Mutex(descriptor)
    }

    deinit { release() }

    func release() {
        guard let descriptor = descriptor.withLock({ $0.take() }) else { return }
        SystemFileSystem().discard(descriptor)
    }
}
