import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Synchronization

/// Tasks that call one store in etcd: own keys, shared counters, batches, lists and watches.
struct EtcdStress: Sendable {
    /// The values that a task's own key may have.
    private struct Values {
        var acknowledged: Int?

        /// Values of writes with unknown outcomes, which may take effect at any later moment.
        var unknown: Set<Int> = []

        func contain(_ value: Int?) -> Bool { value == acknowledged || value.map(unknown.contains) == true }
    }

    private struct Counts {
        var done = 0
        var unknown = 0
    }

    private final class Expected: Sendable {
        let own = Mutex<[Int: Values]>([:])
        let counters = Mutex<[Int: Counts]>([:])
    }

    private static let counterCount = 500
    let store: EtcdKVStore
    let run: StressRun
    private let expected = Expected()

    init(_ store: EtcdKVStore, _ run: StressRun) {
        (self.store, self.run) = (store, run)
    }

    private static func own(_ task: Int) -> KVKey<Int> { KVKey<Int>("own/\(task)") }

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
        } catch let error as AsyncKVStoreError {
            switch error.code {
            case .cancelled, .unknownOutcome, .conflict: run.count("\(error.code)")
            default: run.report("\(error)")
            }
        } catch {
            run.report("\(error)")
        }
    }

    private func read(_ task: Int) async throws {
        let value = try await store.read(Self.own(task))
        let isRight = expected.own.withLock { $0[task, default: Values()].contain(value) }
        if !isRight { run.report("own/\(task) is \(value.map(String.init) ?? "absent")") }
    }

    /// Writes the task's own key, which no other task writes.
    private func write(_ task: Int) async throws {
        let value = Int.random(in: 0 ... .max)
        try await noting(task, value) {
            try await store.set(Self.own(task), value: value)
        }
    }

    private func batch(_ task: Int) async throws {
        let value = Int.random(in: 0 ... .max)
        var batch = KVBatch()
        try batch.set(Self.own(task), value: value)
        try batch.set(KVKey<Int>("batch/\(task)"), value: value)
        let changes = batch
        try await noting(task, value) {
            try await store.commit(changes, timeToLive: nil)
        }
    }

    private func noting(
        _ task: Int, _ value: Int, _ write: () async throws -> Void
    ) async throws {
        do {
            try await write()
            expected.own.withLock { $0[task, default: Values()].acknowledged = value }
        } catch let error as AsyncKVStoreError {
            if error.code == .unknownOutcome {
                expected.own.withLock { _ = $0[task, default: Values()].unknown.insert(value) }
            }
            throw error
        }
    }

    private func increment(_ number: Int) async throws {
        do {
            try await store.update(Self.counter(number), default: 0) { $0 += 1 }
            expected.counters.withLock { $0[number, default: .init()].done += 1 }
        } catch let error as AsyncKVStoreError {
            if error.code == .unknownOutcome {
                expected.counters.withLock { $0[number, default: .init()].unknown += 1 }
            }
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
        for (task, values) in expected.own.withLock({ $0 }) {
            let value = try await store.read(Self.own(task))
            if !values.contain(value) { run.report("own/\(task) ends as \(value.map(String.init) ?? "absent")") }
        }
        var sum = 0
        for (number, counts) in expected.counters.withLock({ $0 }) {
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
