import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation
import Synchronization

/// The time from another client's write to its arrival.
enum Delivery {
    static func measure(_ count: Int, _ server: EtcdServer, _ table: inout GoalTable) async throws {
        let content = SampleContent(count: 1)
        let (writer, reader) = (
            try EtcdKVStore(content.configuration(server)), try EtcdKVStore(content.configuration(server))
        )
        let raw = RawGateway(server)
        var times: (raw: [Double], stream: [Double], mirror: [Double]) = ([], [], [])
        // In turns, so that each has the same share of the machine's noise.
        for _ in 0..<5 {
            times.raw += try await rawTimes(count / 5, raw, writer)
            times.stream += try await streamTimes(count / 5, reader, writer)
            times.mirror += try await mirrorTimes(count / 5, reader, writer)
        }
        for (name, part) in [("median", 0.5), ("95 %", 0.95)] {
            let (own, mirror, reference) = (
                times.stream.quantile(part), times.mirror.quantile(part), times.raw.quantile(part)
            )
            let title = "another client's set to "
            table.add(
                title + "our changes / a raw watch, \(name)", own.milliseconds, reference.milliseconds,
                ratio: own / reference, goal: 2)
            table.add(
                title + "the mirror / a raw watch, \(name)", mirror.milliseconds, reference.milliseconds,
                ratio: mirror / reference, goal: 2)
        }
        await writer.close()
        await reader.close()
        try await raw.close()
    }

    private static let key = KVKey<Int>("delivered")

    /// When the last value arrived.
    private final class Arrivals: Sendable {
        private let waiting = Mutex<(CheckedContinuation<ContinuousClock.Instant, Never>?, ContinuousClock.Instant?)>(
            (nil, nil))

        /// The value has arrived.
        func arrive() {
            let instant = ContinuousClock.now
            let continuation = waiting.withLock { waiting in
                let continuation = waiting.0
                waiting = (nil, continuation == nil ? instant : nil)
                return continuation
            }
            continuation?.resume(returning: instant)
        }

        /// Waits for the next value.
        func next() async -> ContinuousClock.Instant {
            await withCheckedContinuation { continuation in
                let instant = waiting.withLock { waiting in
                    let instant = waiting.1
                    waiting = (instant == nil ? continuation : nil, nil)
                    return instant
                }
                if let instant { continuation.resume(returning: instant) }
            }
        }
    }

    /// Writes values one by one; returns the seconds from the call to the arrival.
    private static func times(_ count: Int, _ writer: EtcdKVStore, _ arrivals: Arrivals) async throws -> [Double] {
        var times: [Double] = []
        // The first ones are not counted.
        for value in 0..<count + 5 {
            let start = ContinuousClock.now
            try await writer.set(key, value: value)
            let time = (await arrivals.next() - start).seconds
            if value >= 5 { times.append(time) }
        }
        return times
    }

    private static func rawTimes(_ count: Int, _ raw: RawGateway, _ writer: EtcdKVStore) async throws -> [Double] {
        struct Message: Decodable {
            struct Result: Decodable {
                struct Event: Decodable {
                    var kv: RawGateway.Range.Entry
                }

                var events: [Event]?
            }

            var result: Result
        }
        let arrivals = Arrivals()
        let (opened, open) = AsyncStream.makeStream(of: Void.self)
        let lines = try await raw.watch()
        let task = Task {
            for try await line in lines {
                let message = try JSONDecoder().decode(Message.self, from: Data(line.utf8))
                if message.result.events == nil { open.yield() } else { arrivals.arrive() }
            }
        }
        defer { task.cancel() }
        for await _ in opened { break }
        return try await times(count, writer, arrivals)
    }

    private static func streamTimes(
        _ count: Int, _ reader: EtcdKVStore, _ writer: EtcdKVStore
    ) async throws -> [Double] {
        let arrivals = Arrivals()
        let (opened, open) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            for try await change in reader.changes() {
                if change == .resync { open.yield() } else { arrivals.arrive() }
            }
        }
        defer { task.cancel() }
        for await _ in opened { break }
        return try await times(count, writer, arrivals)
    }

    /// The mirror's figure includes the delivery to a subscriber, by which it is seen.
    private static func mirrorTimes(
        _ count: Int, _ reader: EtcdKVStore, _ writer: EtcdKVStore
    ) async throws -> [Double] {
        let mirror = try MirroredKVStore(reader)
        try await mirror.wait(upTo: .seconds(60))
        let arrivals = Arrivals()
        let changes = mirror.subscribe(to: .prefix(""))
        let task = Task {
            var iterator = changes?.makeAsyncIterator()
            while try await iterator?.nextSet() != nil { arrivals.arrive() }
        }
        defer { task.cancel() }
        let times = try await times(count, writer, arrivals)
        try await mirror.close()
        return times
    }
}

/// Reads of a mirror beside those of a store on disk.
enum Reads {
    private static let rounds = 15
    private static let reads = 1_000_000

    static func measure(_ content: SampleContent, _ server: EtcdServer, _ table: inout GoalTable) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "forge-bench-\(UUID().uuidString)")
        defer { do { try FileManager.default.removeItem(at: directory) } catch {} }
        let file = try FileKVStore(at: directory)
        try content.fill(file)
        let store = try EtcdKVStore(content.configuration(server))
        let mirror = try MirroredKVStore(store)
        try await mirror.wait(upTo: .seconds(600))
        // The same keys in another order than that of the insertion.
        var generator = SystemRandomNumberGenerator()
        let keys = (0..<1_000).map { _ in content.key(Int.random(in: 0..<content.count, using: &generator)) }
        var times: (own: [Double], file: [Double]) = ([], [])
        // The first round decodes the values.
        for round in 0...rounds {
            let file = time(keys) { file.get($0) }
            let own = time(keys) { mirror.get($0) }
            if round > 0 {
                times.own.append(own)
                times.file.append(file)
            }
        }
        let (own, other) = (times.own.quantile(), times.file.quantile())
        table.add("get / FileKVStore.get", own.nanoseconds, other.nanoseconds, ratio: own / other, goal: 1.2)
        try await mirror.close()
        await store.close()
        try file.close()
    }

    /// The seconds of a read.
    @inline(never)
    private static func time(_ keys: [KVKey<String>], _ get: (KVKey<String>) -> String?) -> Double {
        let start = ContinuousClock.now
        var sum = 0
        for index in 0..<reads { sum &+= get(keys[index % keys.count])?.utf8.count ?? 0 }
        precondition(sum > 0)
        return (ContinuousClock.now - start).seconds / Double(reads)
    }
}
