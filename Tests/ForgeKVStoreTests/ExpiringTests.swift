import ChildProcesses
import Dispatch
import ForgeKVStore
import Foundation
import Synchronization
import Testing

@Suite("Values that expire")
struct ExpiringTests {
    /// A manually set clock.
    private final class Clock: Sendable {
        private let time = Mutex(Date(timeIntervalSince1970: 1000))

        var now: Date {
            get { time.withLock { $0 } }
            set { time.withLock { $0 = newValue } }
        }

        func advance(_ seconds: Double) { time.withLock { $0 += seconds } }
    }

    private let clock = Clock()
    private let base = InMemoryKVStore()
    private let store: ExpiringKVStore<InMemoryKVStore>
    private let key = KVKey<Int>("a")

    init() {
        let clock = clock
        store = ExpiringKVStore(base) { clock.now }
    }

    private func isThere() throws -> Bool {
        let answers = [
            store.get(key) != nil, try store.read(key) != nil, store.contains(key), try store.keys() == ["a"],
            try store.rawValue(named: "a") != nil, try store.entry(named: "a") != nil, try store.snapshot()["a"] != nil,
        ]
        #expect(Set(answers).count == 1, "\(answers)")
        return answers[0]
    }

    @Test("a value of a later version of another type is kept, and fails no call for the whole store")
    func laterVersion() throws {
        let foreign = KVKey<Int>("foreign", migrations: [.from(1) { (old: Int) in old }])
        try base.set(foreign, value: 1)
        try base.set(KVKey<String>("text"), value: "x")
        try store.set(key, value: 1, expiresAfter: .seconds(10))
        #expect(try store.keys().sorted() == ["a", "foreign", "text"])
        #expect(try store.snapshot().names == ["a"])
        #expect(try store.removeExpired() == 0)
        clock.advance(10)
        #expect(try store.keys().sorted() == ["foreign", "text"])
        #expect(try store.snapshot().isEmpty)
        #expect(try store.removeExpired() == 1)
        #expect(try base.read(foreign) == 1)
        #expect(try store.removeExpired() == 0)
    }

    @Test("a value exists before its expiration and is absent from that instant on, for every call")
    func boundary() throws {
        try store.set(key, value: 1, expiresAt: Date(timeIntervalSince1970: 1010))
        #expect(try isThere())
        clock.advance(9.999)
        #expect(try isThere())
        #expect(try store.expiration(of: key) == Date(timeIntervalSince1970: 1010))
        clock.now = Date(timeIntervalSince1970: 1010)
        #expect(try !isThere())
        #expect(try store.expiration(of: key) == nil)
    }

    @Test("a duration starts now, and a negative one makes the value absent at once")
    func duration() throws {
        try store.set(key, value: 1, expiresAfter: .milliseconds(1500))
        #expect(try store.expiration(of: key) == Date(timeIntervalSince1970: 1001.5))
        try store.set(key, value: 1, expiresAfter: .zero)
        #expect(try !isThere())
        try store.set(key, value: 1, expiresAfter: .seconds(-5))
        #expect(try !isThere())
    }

    @Test("a duration may have any length", .onOwnThreads)
    func longDuration() async throws {
        await #expect(processExitsWith: .success) {
            let store = ExpiringKVStore(InMemoryKVStore())
            let key = KVKey<Int>("a")
            for duration in [Duration.seconds(9.3e18), Duration(_high: .max, low: .max)] {
                try store.set(key, value: 1, expiresAfter: duration)
                guard try store.read(key) == 1 else { exit(1) }
            }
            try store.set(key, value: 1, expiresAfter: Duration(_high: .min, low: 0))
            guard try store.read(key) == nil else { exit(1) }
        }
    }

    @Test("a set without expiration removes the expiration, an update keeps it")
    func endsOfWrites() throws {
        let end = Date(timeIntervalSince1970: 1010)
        try store.set(key, value: 1, expiresAt: end)
        #expect(try store.update(key, default: 100) { $0 += 1 } == 2)
        #expect(try store.expiration(of: key) == end)
        try store.set(key, value: 3)
        #expect(try store.expiration(of: key) == nil)
        clock.advance(1000)
        #expect(try isThere())
    }

    @Test("requirements treat an expired value as absent")
    func requirements() throws {
        try store.set(key, value: 1, expiresAfter: .seconds(10))
        let revision = try #require(try store.entry(named: "a")?.revision)
        #expect(try !store.createIfAbsent(key, value: 2))
        clock.advance(10)
        #expect(try !store.compareAndSet(key, revision: revision, value: 2))
        #expect(try store.createIfAbsent(key, value: 2))
        #expect(store.get(key) == 2)
        clock.advance(1000)
        #expect(try store.update(key, default: 50) { $0 += 1 } == 3)
    }

    @Test("setting the clock back does not restore values")
    func backwards() throws {
        try store.set(key, value: 1, expiresAfter: .seconds(10))
        clock.advance(10)
        #expect(try !isThere())
        clock.advance(-10)
        #expect(try !isThere())
        #expect(try store.removeExpired() == 1)
        // Another object has not seen the earlier time, but swept values are gone.
        let clock = clock
        #expect(ExpiringKVStore(base) { clock.now }.get(key) == nil)
        #expect(try base.keys() == [])
    }

    @Test("a sweep removes only expired values")
    func sweep() throws {
        for index in 0..<10 {
            try store.set(KVKey<Int>("\(index)"), value: index, expiresAfter: .seconds(index))
        }
        try store.set(KVKey<Int>("forever"), value: 1)
        try base.set(KVKey<String>("foreign"), value: "not from here")
        clock.advance(4)
        #expect(try base.keys().count == 12)
        #expect(try store.removeExpired() == 5)
        #expect(try base.keys().count == 7)
        #expect(try store.removeExpired() == 0)
        #expect(try store.keys().sorted() == ["5", "6", "7", "8", "9", "foreign", "forever"])
    }

    @Test("a value not stored through this type is undecodable and kept")
    func foreign() throws {
        try base.set(KVKey<String>("a"), value: "x")
        #expect(store.contains(key))
        #expect(store.get(key) == nil)
        #expect(throws: KVStoreError.self) { try store.read(key) }
        #expect(throws: KVStoreError.self) { try store.entry(named: "a") }
        #expect(try store.snapshot().isEmpty)
        #expect(base.get(KVKey<String>("a")) == "x")
    }

    @Test("expirations persist")
    func reopening() throws {
        let fixture = LogFixture()
        let clock = clock
        do {
            try ExpiringKVStore(try fixture.open()) { clock.now }.set(key, value: 1, expiresAfter: .seconds(10))
        }
        #expect(ExpiringKVStore(try fixture.open()) { clock.now }.get(key) == 1)
        clock.advance(10)
        let store = ExpiringKVStore(try fixture.open()) { clock.now }
        #expect(store.get(key) == nil)
        #expect(try store.removeExpired() == 1)
    }

    @Test("a store without revisions can also be swept")
    func withoutRevisions() throws {
        let suite = TemporarySuite()
        let defaults = UserDefaultsKVStore(suiteName: suite.name)
        let clock = clock
        let store = ExpiringKVStore(defaults) { clock.now }
        try store.set(key, value: 1, expiresAfter: .seconds(10))
        try store.set(KVKey<Int>("b"), value: 1)
        clock.advance(10)
        #expect(try store.removeExpired() == 1)
        #expect(try defaults.keys() == ["b"])
    }

    /// A store in which something happens just before its next batch.
    private final class Contended: KVLayer, KVTransactionalStoring {
        let base = InMemoryKVStore()
        let beforeBatch = Mutex<(@Sendable () throws -> Void)?>(nil)

        func commit(_ batch: KVBatch) throws {
            let action = beforeBatch.withLock { $0.take() }
            try action?()
            try base.commit(batch)
        }
    }

    @Test("a value that is stored during a sweep is kept, and one that is swept during a change is absent for it")
    func contention() throws {
        let contended = Contended()
        let (clock, key) = (self.clock, self.key)
        let store = ExpiringKVStore(contended) { clock.now }
        let other = ExpiringKVStore(contended.base) { clock.now }
        try store.set(key, value: 1, expiresAfter: .zero)
        contended.beforeBatch.withLock { $0 = { try other.set(key, value: 2) } }
        #expect(try store.removeExpired() == 0)
        #expect(try store.read(key) == 2)

        try store.set(key, value: 3, expiresAfter: .zero)
        contended.beforeBatch.withLock { $0 = { _ = try other.removeExpired() } }
        #expect(try store.createIfAbsent(key, value: 4))
        #expect(try store.read(key) == 4)

        try store.set(key, value: 5, expiresAfter: .zero)
        contended.beforeBatch.withLock { $0 = { try other.set(key, value: 6) } }
        #expect(try !store.createIfAbsent(key, value: 7))
        #expect(try store.read(key) == 6)
    }

    /// A store without batches in which something happens just before a removal.
    private struct Interrupted: KVLayer, KVRawStoring {
        let base = InMemoryKVStore()
        let beforeRemoval: @Sendable () -> Void

        func removeValue(named name: String) throws {
            beforeRemoval()
            try base.removeValue(named: name)
        }
    }

    @Test("without batches too, a value that another thread stores during a sweep is kept")
    func concurrentSweep() throws {
        let (clock, key) = (self.clock, self.key)
        let action = Mutex<(@Sendable () -> Void)?>(nil)
        let store = ExpiringKVStore(Interrupted { action.withLock { $0 }?() }) { clock.now }
        try store.set(key, value: 1, expiresAfter: .zero)
        let isStored = DispatchSemaphore(value: 0)
        action.withLock {
            $0 = {
                Thread.detachNewThread {
                    do { try store.set(key, value: 2) } catch { Issue.record(error) }
                    isStored.signal()
                }
                // It waits for the end of the sweep.
                if isStored.wait(timeout: .now() + .milliseconds(200)) == .success { isStored.signal() }
            }
        }
        #expect(try store.removeExpired() == 1)
        isStored.wait()
        #expect(try store.read(key) == 2)
        action.withLock { $0 = nil }
    }

    @Test("a value that this type has not stored is set aside before it is overwritten, and no other")
    func foreignValue() throws {
        let file = try LogFixture().open()
        let store = ExpiringKVStore(file)
        try file.set(KVKey<String>("a"), value: "x")
        for value in 1...2 {
            try store.set(key, value: value)
            #expect(try store.read(key) == value)
            #expect(try file.damageReports().map(\.key) == ["a"])
        }
    }

    @Test("a change of what this type has not stored is that of an absent value")
    func foreignChange() async throws {
        var changes = try #require(store.subscribe(to: .prefix(""))).makeAsyncIterator()
        try base.set(KVKey<String>("a"), value: "x")
        #expect(try await changes.next() == .changed(name: "a", entry: nil, revision: nil))
    }

    @Test("exactly one of several threads that create an expired key during a sweep succeeds")
    func concurrency() async throws {
        for round in 0..<20 {
            let key = KVKey<Int>("\(round)")
            try store.set(key, value: -1, expiresAfter: .zero)
            let store = store
            let count = try await withThrowingTaskGroup(of: Bool.self) { group in
                for writer in 0..<3 { group.addTask { try store.createIfAbsent(key, value: writer) } }
                group.addTask {
                    try store.removeExpired()
                    return false
                }
                var count = 0
                for try await success in group where success { count += 1 }
                return count
            }
            #expect(count == 1)
            #expect(store.get(key) != nil)
        }
    }
}
