import Dispatch
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("A check that does not end is reported at its time limit")
struct TimeLimitTests {
    private static let hang = ConformanceCheck<Waiting>("ends") { waiting in
        waiting.begin()
        await waiting.wait()
    }

    @Test("with its name and the limit, by the clock that it is given")
    func name() async throws {
        let (waiting, clock) = (Waiting(), ManualClock())
        let task = Task { try await Self.hang.run(on: waiting, within: .seconds(7), on: clock) }
        await waiting.hasBegun()
        await clock.passLimit()
        let error = await #expect(throws: ConformanceViolation.self) { try await task.value }
        #expect(error?.description.hasPrefix("ends: did not end within 7.0 seconds") ?? false)
        #expect(clock.limits == [.seconds(7)])
    }

    @Test(
        "also if it blocks its thread for ever, on more threads than there are processors",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func blocked() async {
        let (release, clock) = (DispatchSemaphore(value: 0), ManualClock())
        let started = Counter()
        let check = ConformanceCheck<Int>("returns") { _ in
            started.increment()
            block(on: release)
        }
        let count = 2 * ProcessInfo.processInfo.activeProcessorCount + 1
        let tasks = (0..<count).map { number in Task { try await check.run(on: number, on: clock) } }
        await started.reached(count)
        for _ in tasks { await clock.passLimit() }
        for task in tasks { await #expect(throws: ConformanceViolation.self) { try await task.value } }
        for _ in tasks { release.signal() }
    }

    @Test("with the call that does not return, and its line")
    func call() async throws {
        let (started, release, clock) = (Counter(), DispatchSemaphore(value: 0), ManualClock())
        var operations = ReplacedFileOperations()
        operations.write = { _, _, _ in
            started.increment()
            block(on: release)
        }
        let subject = FileOperationsUnderTest(operations, directory: URL(filePath: "/d", directoryHint: .isDirectory))
        let check = try #require(ConformanceChecks.fileOperations.first)
        let task = Task { try await check.run(on: subject, on: clock) }
        await started.reached(1)
        await clock.passLimit()
        let error = await #expect(throws: ConformanceViolation.self) { try await task.value }
        let expected =
            "did not end within 120.0 seconds, in write(7 bytes, to: again) (ForgeStorageTesting/FileOperation"
        #expect(error?.description.contains(expected) ?? false, "\(String(describing: error))")
        release.signal()
    }

    @Test("and names itself when it starts")
    func starting() async {
        var started: [String] = []
        let suite = ConformanceSuite<Int>("numbers", ["one", "two"].map { name in ConformanceCheck(name) { _ in } })
        let gated = ConformanceSuite("numbers", suite.checks + [suite.checks[0].needing(.keyListing)])
        _ = await gated.run(on: "any", having: [], starting: { started.append($0) }) { 0 }
        #expect(started == ["one", "two"])
    }

    @Test("and a run that is cancelled ends at once")
    func cancelled() async {
        let (waiting, clock) = (Waiting(), ManualClock())
        let task = Task { try await Self.hang.run(on: waiting, on: clock) }
        await waiting.hasBegun()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await Self.hang.run(on: waiting, on: clock)
        }
        await #expect(throws: CancellationError.self) { try await late.value }
    }

    /// How a source of changes hangs its consumer.
    enum Hang: CaseIterable, Sendable {
        case withoutFirstElement, oneElementBehind
    }

    @Test(
        "in a source of changes without its first element, and one that is an element behind", arguments: Hang.allCases)
    func changes(_ hang: Hang) async throws {
        let check = try #require(
            ConformanceChecks.asyncKeyValueStore.first {
                $0.description.hasPrefix("changes begin with a resync and lead to the content")
            })
        let (waiting, clock) = (Waiting(), ManualClock())
        let store = HangingChanges(hang, waiting)
        let subject = AsyncKVStoreUnderTest(store, other: store, pass: { _ in })
        let task = Task { try await check.run(on: subject, on: clock) }
        await waiting.hasBegun()
        await clock.passLimit()
        let error = await #expect(throws: ConformanceViolation.self) { try await task.value }
        #expect(error?.description.contains("did not end within 120.0 seconds") ?? false)
    }

    @Test("and a list that returns the directory itself is refused instead of followed")
    func listing() async throws {
        let store = ListsItself()
        try await store.save(Data(), to: "d/e/f", overwrite: true)
        let error = await #expect(throws: FileStoreError.self) { try await store.list(in: "", recursive: true) }
        #expect(error?.code == .unavailable(.inputOutput))
        #expect(error?.key == "d", "\(String(describing: error))")
        let check = try #require(
            ConformanceChecks.fileStore.first { $0.description == "a listing does not contain the directory itself" })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: ListsItself()) }
    }
}

/// Blocks the thread; in an asynchronous context this is an error of the compiler.
private func block(on semaphore: DispatchSemaphore) { semaphore.wait() }

/// Something that waits until its task is cancelled.
private final class Waiting: Sendable {
    private let begun = Counter()

    func begin() { begun.increment() }

    func hasBegun() async { await begun.reached(1) }

    func wait() async {
        let (stream, _) = AsyncStream<Void>.makeStream()
        for await _ in stream {}
    }
}

/// A number for which a task can wait.
private final class Counter: Sendable {
    private let state = Mutex<(count: Int, waiters: [(count: Int, CheckedContinuation<Void, Never>)])>((0, []))

    func increment() {
        let reached = state.withLock { state in
            state.count += 1
            let count = state.count
            let reached = state.waiters.filter { $0.count <= count }
            state.waiters.removeAll { $0.count <= count }
            return reached.map(\.1)
        }
        for waiter in reached { waiter.resume() }
    }

    func reached(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if state.count < count { state.waiters.append((count, continuation)) }
                return state.count >= count
            }
            if isReached { continuation.resume() }
        }
    }
}

/// A clock whose sleeps end when a test says so, or when their tasks are cancelled.
private final class ManualClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var limits: [Duration] = []
        var sleepers: [AsyncStream<Void>.Continuation] = []
    }

    private let state = Mutex(State())
    private let sleepCount = Counter()
    private let passed = Mutex(0)

    var now: Instant { Instant(offset: .zero) }
    var minimumResolution: Duration { .nanoseconds(1) }

    /// The sleeps that have begun.
    var limits: [Duration] { state.withLock { $0.limits } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        state.withLock { state in
            state.limits.append(deadline.offset)
            state.sleepers.append(continuation)
        }
        sleepCount.increment()
        for await _ in stream {}
        try Task.checkCancellation()
    }

    /// Waits for the next sleep, and ends it.
    func passLimit() async {
        let index = passed.withLock { passed in
            defer { passed += 1 }
            return passed
        }
        await sleepCount.reached(index + 1)
        state.withLock { $0.sleepers[index] }.finish()
    }
}

/// A store whose changes hang their consumer.
private final class HangingChanges: AsyncKVStoring {
    private let hang: TimeLimitTests.Hang
    private let waiting: Waiting
    private let base = LocalAsyncKVStore(InMemoryKVStore())

    init(_ hang: TimeLimitTests.Hang, _ waiting: Waiting) {
        self.hang = hang
        self.waiting = waiting
    }

    func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities { await base.capabilities() }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? { try await base.entry(named: name) }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        try await base.commit(batch, timeToLive: timeToLive)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        let (changes, hang, waiting) = (base.changes(prefix: prefix, from: revision), hang, waiting)
        return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in
            var iterator = changes.makeAsyncIterator()
            guard let set = try await iterator.nextSet() else { return nil }
            // The last change is held until another comes, which the consumer does not make.
            let isHeld = set.changes.contains { change in
                switch change {
                case .resync: hang == .withoutFirstElement
                case .changed(let name, _, _): name == "p/end"
                }
            }
            guard isHeld else { return set }
            waiting.begin()
            return try await iterator.nextSet()
        }
    }
}

/// A file store with the required calls, whose lists contain the directory itself.
private struct ListsItself: FileStoring {
    private let base = InMemoryFileStore()

    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        try await base.save(data, to: key, overwrite: overwrite)
    }

    func load(_ key: String) async throws -> Data { try await base.load(key) }
    func exists(_ key: String) async -> Bool { base.exists(key) }
    func delete(_ key: String) async throws { try await base.delete(key) }
    func deleteAll() async throws { try await base.deleteAll() }

    func list(in directory: String) async throws -> [StoredFile] {
        let children = try await base.list(in: directory)
        return directory.isEmpty ? children : try await children + [base.info(directory)]
    }
}
