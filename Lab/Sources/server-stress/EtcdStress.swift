import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Synchronization

/// Tasks that call one store in etcd: own keys, shared counters, batches, lists and watches.
struct EtcdStress: Sendable {
    private struct Counts {
        var done = 0
        var unknown = 0
    }

    private final class Counters: Sendable {
        let counts = Mutex<[Int: Counts]>([:])
    }

    private static let counterCount = 500
    let store: EtcdKVStore
    let run: StressRun
    private let own = OwnValues()
    private let counters = Counters()

    init(_ store: EtcdKVStore, _ run: StressRun) {
        (self.store, self.run) = (store, run)
    }

    private static func key(of task: Int) -> KVKey<Int> { KVKey<Int>("own/\(task)") }

    private static func counter(_ number: Int) -> KVKey<Int> { KVKey<Int>("counter/\(number)") }

    /// Makes a random call.
    func call(_ task: Int) async {
        do {
            switch Int.random(in: 0..<20) {
            case 0..<6: try await read(task)
            case 6..<11: try await write(task)
            case 11..<14: try await increment(task % Self.counterCount)
            case 14..<16: try await batch(task)
            case 16..<18: _ = try await store.keys(prefix: "own/", after: nil, limit: 100)
            case 18: _ = try await store.entries(prefix: "counter/", after: nil, limit: 50, at: nil)
            default: try await watch()
            }
            run.count("done")
        } catch let error as KVStoreError {
            switch error.code {
            case .cancelled, .unknownOutcome, .conflict: run.count("\(error.code)")
            default: run.report("\(error)")
            }
        } catch {
            run.report("\(error)")
        }
    }

    private func read(_ task: Int) async throws {
        let value = try await store.read(Self.key(of: task))
        own.check(task, value, run)
    }

    private func write(_ task: Int) async throws {
        let value = Int.random(in: 0 ... .max)
        try await own.note(task, value, isUnknown: Self.isUnknown) {
            try await store.set(Self.key(of: task), value: value)
        }
    }

    private func batch(_ task: Int) async throws {
        let value = Int.random(in: 0 ... .max)
        var batch = KVBatch()
        try batch.set(Self.key(of: task), value: value)
        try batch.set(KVKey<Int>("batch/\(task)"), value: value)
        let changes = batch
        try await own.note(task, value, isUnknown: Self.isUnknown) {
            try await store.commit(changes, timeToLive: nil)
        }
    }

    private static func isUnknown(_ error: any Error) -> Bool {
        (error as? KVStoreError)?.code == .unknownOutcome
    }

    private func increment(_ number: Int) async throws {
        do {
            try await store.update(Self.counter(number), default: 0) { $0 += 1 }
            counters.counts.withLock { $0[number, default: .init()].done += 1 }
        } catch {
            if Self.isUnknown(error) { counters.counts.withLock { $0[number, default: .init()].unknown += 1 } }
            throw error
        }
    }

    /// Follows changes for a few elements or until the task is cancelled.
    private func watch() async throws {
        var changes = store.changes(prefix: "counter/", from: nil).makeAsyncIterator()
        for _ in 0..<Int.random(in: 1...5) { _ = try await changes.next(isolation: nil) }
    }

    /// Compares every own key and counter with the outcomes of the calls.
    func check() async throws {
        for task in own.tasks { own.check(task, try await store.read(Self.key(of: task)), run) }
        var sum = 0
        for (number, counts) in counters.counts.withLock({ $0 }) {
            let value = try await store.read(Self.counter(number)) ?? 0
            sum += counts.done
            if !(counts.done...counts.done + counts.unknown).contains(value) {
                run.report("counter/\(number) is \(value): \(counts.done) increments, \(counts.unknown) unknown")
            }
        }
        print("\(sum) increments are exact")
        await store.close()
    }
}
