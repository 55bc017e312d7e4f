import Dispatch
import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("A cache in memory and on disk", .eachPlatform, .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct BoundedCacheTests {
    @Test("finds a value in memory, then on disk, and loads it once")
    func layers() async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        #expect(try await cache.value(for: "a") { Data("1".utf8) } == Data("1".utf8))
        #expect(try await cache.value(for: "a") { Data("2".utf8) } == Data("1".utf8))
        cache.trimMemory()
        #expect(cache.valueInMemory(for: "a") == nil)
        #expect(try await cache.value(for: "a") { Data("2".utf8) } == Data("1".utf8))
        #expect(try await fixture.open().value(for: "a") { Data("2".utf8) } == Data("1".utf8))
        let statistics = cache.statistics
        #expect(statistics.loadCount == 1 && statistics.missCount == 1 && statistics.diskHitCount == 1)
        #expect(statistics.memory.hitCount == 1)
        #expect(try await cache.sizeOnDisk() == 42)
        #expect(fixture.errors.isEmpty)
    }

    @Test("calls load once for all callers of a key, and only for that key")
    func singleFlight() async throws {
        let cache = try CacheFixture().open()
        let gate = Gate()
        let loads = Counter()
        try await withThrowingTaskGroup(of: Data.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    try await cache.value(for: "a") {
                        loads.increment()
                        await gate.wait()
                        return Data("a".utf8)
                    }
                }
            }
            await gate.arrival()
            #expect(try await cache.value(for: "b") { Data("b".utf8) } == Data("b".utf8))
            await gate.open()
            for try await value in group { #expect(value == Data("a".utf8)) }
        }
        #expect(loads.value == 1)
    }

    @Test("a caller that waits for a disk which does not answer ends when it is cancelled")
    func cancellationOfReading() async throws {
        let (hasBegun, isAnswered) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isEnded = DispatchSemaphore(value: 0)
        let fixture = CacheFixture()
        _ = try await fixture.open().value(for: "a") { Data("a".utf8) }
        let fileSystem = InterceptedFileSystem(fixture.fileSystem) { (call) throws(FileSystemError) in
            guard call.operation == .open else { return }
            hasBegun.signal()
            isAnswered.wait()
            isAnswered.signal()
        }
        let cache = try BoundedCache<Data>(directory: CacheFixture.directory, fileSystem: fileSystem)
        let call = Task { try await cache.value(for: "a") { Data("b".utf8) } }
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                hasBegun.wait()
                continuation.resume()
            }
        }
        // Ends the test if the call waits for the disk.
        Thread.detachNewThread { if isEnded.wait(timeout: .now() + 10) == .timedOut { isAnswered.signal() } }
        let start = ContinuousClock.now
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        #expect(ContinuousClock.now - start < .seconds(8))
        isEnded.signal()
        isAnswered.signal()
    }

    /// Deep runs, which have the machine for themselves, measure the time too.
    @Test("many callers of one key end when they are cancelled")
    func manyCancellations() async throws {
        let cache = try CacheFixture().open()
        let gate = Gate()
        let calls = (0..<(TestDepth.isDeep ? 16_000 : 500)).map { _ in
            Task {
                try await cache.value(for: "a") {
                    await gate.wait()
                    return Data()
                }
            }
        }
        await gate.arrival()
        while cache.statistics.memory.missCount < calls.count { await Task.yield() }
        let start = ContinuousClock.now
        for call in calls { call.cancel() }
        var cancelledCount = 0
        for call in calls {
            if case .failure(let error) = await call.result, error is CancellationError { cancelledCount += 1 }
        }
        if TestDepth.isDeep { #expect(ContinuousClock.now - start < .seconds(4)) }
        #expect(cancelledCount == calls.count)
        await gate.open()
    }

    @Test("the cancellation handler of a load may cancel another caller of the cache")
    func cancellationOfAnother() async throws {
        let cache = try CacheFixture().open()
        let (gate, otherGate) = (Gate(), Gate())
        let other = Task {
            try await cache.value(for: "b") {
                await otherGate.wait()
                return Data()
            }
        }
        await otherGate.arrival()
        let first = Task {
            try await cache.value(for: "a") {
                await withTaskCancellationHandler {
                    await gate.wait()
                } onCancel: {
                    other.cancel()
                }
                return Data()
            }
        }
        await gate.arrival()
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        await #expect(throws: CancellationError.self) { try await other.value }
        await gate.open()
        await otherGate.open()
    }

    /// The ways in which an entry comes into memory.
    enum Insertion: CaseIterable, Sendable {
        case load, loadToDisk, fromDisk, insert, replacement, unencodable
    }

    @Test("the deinitializer of an evicted value may cancel a caller of the cache", arguments: Insertion.allCases)
    func cancellationByEvictedValue(_ insertion: Insertion) async throws {
        final class Canceller: Sendable {
            let task: Task<Canceller, any Error>?

            init(_ task: Task<Canceller, any Error>?) { self.task = task }

            deinit { task?.cancel() }
        }
        struct Unencodable: Error {}
        let isStored = insertion != .load
        let coding = CacheCoding<Canceller> { value in
            if insertion == .unencodable, value.task == nil { throw Unencodable() }
            return Data()
        } decode: { _ in
            Canceller(nil)
        } cost: { _ in
            1
        }
        var options = CacheOptions()
        options.memory.count = 1
        let cache = try BoundedCache(
            directory: isStored ? CacheFixture.directory : nil, coding: coding, options: options,
            fileSystem: EachPlatform.fileSystem())
        let gate = Gate()
        if insertion == .fromDisk { await cache.insert(Canceller(nil), for: "other") }
        let waiting = Task {
            try await cache.value(for: "awaited") {
                await gate.wait()
                return Canceller(nil)
            }
        }
        await gate.arrival()
        await cache.insert(Canceller(waiting), for: "a")
        #expect(cache.valueInMemory(for: "a") != nil)
        switch insertion {
        case .load, .loadToDisk, .fromDisk: _ = try await cache.value(for: "other") { Canceller(nil) }
        case .insert, .unencodable: await cache.insert(Canceller(nil), for: "other")
        case .replacement: await cache.insert(Canceller(nil), for: "a")
        }
        await #expect(throws: CancellationError.self) { _ = try await waiting.value }
        await gate.open()
    }

    @Test("a cancelled caller ends at once, the others get the value")
    func cancellation() async throws {
        let cache = try CacheFixture().open()
        let gate = Gate()
        let load: @Sendable () async throws -> Data = {
            await gate.wait()
            try Task.checkCancellation()
            return Data("a".utf8)
        }
        let first = Task { try await cache.value(for: "a", load: load) }
        await gate.arrival()
        let second = Task { try await cache.value(for: "a", load: load) }
        while cache.statistics.memory.missCount < 2 { await Task.yield() }
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        await gate.open()
        #expect(try await second.value == Data("a".utf8))
        // A value that is at hand needs no waiting.
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await cache.value(for: "a", load: load)
        }
        #expect(try await cancelled.value == Data("a".utf8))
        #expect(cache.statistics.loadCount == 1)
    }

    @Test("a load that no caller waits for is cancelled, and the next caller loads again")
    func lastCancellation() async throws {
        let cache = try CacheFixture().open()
        let gate = Gate()
        let cancellations = Counter()
        let only = Task {
            try await cache.value(for: "a") {
                await gate.wait()
                if Task.isCancelled { cancellations.increment() }
                return Data("old".utf8)
            }
        }
        await gate.arrival()
        only.cancel()
        await #expect(throws: CancellationError.self) { try await only.value }
        #expect(try await cache.value(for: "a") { Data("new".utf8) } == Data("new".utf8))
        await gate.open()
        while cancellations.value == 0 { await Task.yield() }
        #expect(cache.valueInMemory(for: "a") == Data("new".utf8))
    }

    /// A call that a load must not undo.
    enum Change: CaseIterable {
        case remove, purge, insert
    }

    @Test(
        "a change during a load wins: the callers get the loaded value, but it is not kept", arguments: Change.allCases)
    func changeDuringLoad(change: Change) async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        let gate = Gate()
        let caller = Task {
            try await cache.value(for: "a") {
                await gate.wait()
                return Data("loaded".utf8)
            }
        }
        await gate.arrival()
        switch change {
        case .remove: try await cache.remove("a")
        case .purge: try await cache.purge()
        case .insert: await cache.insert(Data("inserted".utf8), for: "a")
        }
        await gate.open()
        #expect(try await caller.value == Data("loaded".utf8))
        let expected = change == .insert ? Data("inserted".utf8) : Data("next".utf8)
        #expect(try await fixture.open().value(for: "a") { Data("next".utf8) } == expected)
        cache.trimMemory()
        #expect(try await cache.value(for: "a") { Data("next".utf8) } == expected)
    }

    @Test("load gets the stale entry, and can renew it")
    func renewal() async throws {
        let fixture = CacheFixture()
        let cache = try fixture.open()
        await cache.insert(Data("1".utf8), for: "a", expiresAfter: .seconds(10), tag: "t")
        fixture.advance(by: 9.9)
        #expect(try await cache.value(for: "a") { _ in .absent(expiresAfter: .seconds(1)) } == Data("1".utf8))
        fixture.advance(by: 0.1)
        for cache in [try fixture.open(), cache] {
            let renewed = try await cache.value(for: "a") { stale in
                #expect(stale?.value == Data("1".utf8) && stale?.tag == "t")
                #expect(stale?.expiredAt == Date(timeIntervalSince1970: 1_000_010))
                return .notModified(expiresAfter: .seconds(10))
            }
            #expect(renewed == Data("1".utf8))
        }
        fixture.advance(by: 9)
        #expect(try await fixture.open().value(for: "a") { Data("2".utf8) } == Data("1".utf8))
        await #expect(throws: CacheError.self) { try await cache.value(for: "b") { _ in .notModified() } }
    }

    @Test("a stale value is returned if loading fails, for a limited time")
    func staleIfLoadFails() async throws {
        let fixture = CacheFixture { $0.staleIfLoadFails = .seconds(5) }
        let cache = try fixture.open()
        await cache.insert(Data("1".utf8), for: "a", expiresAfter: .seconds(10))
        fixture.advance(by: 15)
        #expect(try await cache.value(for: "a") { _ in throw LoadFailure() } == Data("1".utf8))
        #expect(fixture.errors.map(\.reason) == [.load])
        fixture.advance(by: 0.1)
        await #expect(throws: LoadFailure.self) { try await cache.value(for: "a") { _ in throw LoadFailure() } }
        #expect(cache.statistics.failedLoadCount == 2)
    }

    @Test("a stale value is returned at once while it is loaded again, if that is allowed")
    func staleWhileLoading() async throws {
        let fixture = CacheFixture { $0.staleWhileLoading = .seconds(5) }
        let cache = try fixture.open()
        await cache.insert(Data("1".utf8), for: "a", expiresAfter: .seconds(10))
        fixture.advance(by: 14)
        let gate = Gate()
        for _ in 0..<3 {
            let value = try await cache.value(for: "a") { _ in
                await gate.wait()
                return .value(Data("2".utf8))
            }
            #expect(value == Data("1".utf8))
        }
        await gate.arrival()
        await gate.open()
        while cache.valueInMemory(for: "a") != Data("2".utf8) { await Task.yield() }
        #expect(cache.statistics.loadCount == 1)
    }

    @Test("loads a value that an entry on a read-only disk says is absent")
    func absenceOnReadOnlyDisk() async throws {
        let fixture = CacheFixture()
        #expect(try await fixture.open().value(for: "a") { _ in .absent(expiresAfter: .seconds(10)) } == nil)
        try fixture.fileSystem.setReadOnly(true)
        #expect(try await fixture.open().value(for: "a") { Data("1".utf8) } == Data("1".utf8))
        #expect(fixture.errors.count == 1)
    }

    @Test("remembers that there is no value, also on disk")
    func absence() async throws {
        let fixture = CacheFixture()
        #expect(try await fixture.open().value(for: "a") { _ in .absent(expiresAfter: .seconds(10)) } == nil)
        let cache = try fixture.open()
        #expect(try await cache.value(for: "a") { _ in .value(Data()) } == nil)
        fixture.advance(by: 10)
        let value = try await cache.value(for: "a") { stale in
            #expect(stale != nil && stale?.value == nil)
            return .value(Data("1".utf8))
        }
        #expect(value == Data("1".utf8))
    }

    @Test("a value that cannot be encoded replaces the old one too", arguments: [true, false])
    func unencodable(hasCost: Bool) async throws {
        let fixture = CacheFixture()
        var cost: (@Sendable (String) -> Int)?
        if hasCost { cost = { _ in 1 } }
        let encode: @Sendable (String) throws -> Data = { text in
            if text == "new" { throw LoadFailure() }
            return Data(text.utf8)
        }
        let coding = CacheCoding<String>(encode: encode, decode: { String(decoding: $0, as: UTF8.self) }, cost: cost)
        func open() throws -> BoundedCache<String> {
            try BoundedCache(
                directory: CacheFixture.directory, coding: coding, options: CacheOptions(),
                fileSystem: fixture.fileSystem)
        }
        let cache = try open()
        await cache.insert("old", for: "a")
        await cache.insert("new", for: "a")
        #expect(cache.valueInMemory(for: "a") == (hasCost ? "new" : nil))
        cache.trimMemory()
        #expect(try await cache.value(for: "a") { "loaded" } == "loaded")
        #expect(try await open().value(for: "a") { "again" } == "loaded")
    }

    @Test("no error of the coding shows a value")
    func quotingErrors() async throws {
        let errors = Mutex<[CacheError]>([])
        let fixture = CacheFixture()
        @Sendable func refuse(_ text: String) throws {
            throw EncodingError.invalidValue(text, .init(codingPath: [], debugDescription: "refused: \(text)"))
        }
        var options = CacheOptions()
        options.onError = { error in errors.withLock { $0.append(error) } }
        for encodes in [false, true] {
            let coding = CacheCoding<String>(
                encode: { text in
                    if !encodes { try refuse(text) }
                    return Data(text.utf8)
                },
                decode: { data in
                    let text = String(decoding: data, as: UTF8.self)
                    try refuse(text)
                    return text
                })
            func open() throws -> BoundedCache<String> {
                try BoundedCache(
                    directory: CacheFixture.directory, coding: coding, options: options, fileSystem: fixture.fileSystem)
            }
            await (try open()).insert("secret", for: "a")
            #expect(try await open().value(for: "a") { "loaded" } == "loaded")
        }
        let found = errors.withLock { $0 }
        #expect(Set(found.map(\.reason)) == [.encode, .decode])
        for error in found {
            #expect(!"\(error)".contains("secret"))
            #expect(!String(reflecting: error).contains("secret"))
        }
    }

    @Test("Codable values are kept on disk")
    func codable() async throws {
        let fixture = CacheFixture()
        func open() throws -> BoundedCache<[String: Int]> {
            try BoundedCache(directory: CacheFixture.directory, fileSystem: fixture.fileSystem)
        }
        try await open().insert(["one": 1], for: "numbers")
        #expect(try await open().value(for: "numbers") { [:] } == ["one": 1])
        // A value of another type cannot be decoded, and is loaded.
        let other = try fixture.open()
        await other.insert(Data("x".utf8), for: "numbers")
        let cache = try open()
        #expect(try await cache.value(for: "numbers") { ["two": 2] } == ["two": 2])
        #expect(cache.statistics.errorCount == 1)
    }

    @Test("two thousand tasks on two hundred keys end, within the limits and without open descriptors")
    func manyTasks() async throws {
        let fixture = CacheFixture {
            $0.memory = CacheLimits(count: 20)
            $0.disk = CacheLimits(sizeInBytes: 4000, count: 50)
        }
        let cache = try fixture.open()
        await cache.insert(Data(), for: "0")
        let before = fixture.fileSystem.openDescriptors.count
        await withTaskGroup { group in
            for number in 0..<2_000 {
                group.addTask {
                    let key = "\(number % 200)"
                    switch number % 9 {
                    case 0: await cache.insert(Data(key.utf8), for: key)
                    case 1: await #expect(throws: Never.self) { try await cache.remove(key) }
                    default:
                        let value = try? await cache.value(for: key) { Data(key.utf8) }
                        #expect(value == Data(key.utf8) || (key == "0" && value == Data()))
                    }
                }
            }
        }
        let files = try fixture.files()
        #expect(files.count <= 50 && files.values.reduce(0, +) <= 4000)
        #expect(try await cache.sizeOnDisk() == files.values.reduce(0, +))
        #expect(fixture.errors.isEmpty)
        #expect(fixture.fileSystem.openDescriptors.count == before)
        let statistics = cache.statistics
        #expect(statistics.memory.count <= 20)
    }
}
