import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("Signals of a file", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct FileSignalTests {
    /// Two processes' signals of one file.
    struct Pair: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let make: @Sendable () throws -> (any FileSignal, any FileSignal)
    }

    /// Two mappings of a file of the system: processes that share it do nothing else.
    private static func mapped() throws -> (any FileSignal, any FileSignal) {
        let system = SystemFileSystem()
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let file = try system.open(directory.path.appending("f"), .readWrite, options: [.create])
        try system.truncate(.descriptor(file), to: 4096)
        let (first, second) = (try system.map(file, at: 0, count: 4096), try system.map(file, at: 0, count: 4096))
        try system.close(file)
        return (try #require(first.makeSignal(at: 4080)), try #require(second.makeSignal(at: 4080)))
    }

    private static func inMemory() throws -> (any FileSignal, any FileSignal) {
        let fileSystem = InMemoryFileSystem()
        let other = fileSystem.process()
        let first = try fileSystem.open("/f", .readWrite, options: [.create])
        let second = try other.open("/f")
        return (try #require(try fileSystem.makeSignal(of: first)), try #require(try other.makeSignal(of: second)))
    }

    static let pairs = [
        Pair(testDescription: "the system's", make: mapped), Pair(testDescription: "in memory", make: inMemory),
    ]

    @Test("every signal is followed by a call that begins after it", arguments: pairs)
    func following(_ pair: Pair) async throws {
        let (sender, receiver) = try pair.make()
        let sent = Atomic(0)
        let (calls, called) = AsyncStream.makeStream(of: Int.self)
        let observation = try receiver.observe {
            called.yield(sent.load(ordering: .sequentiallyConsistent))
            return nil
        }
        var seen = calls.makeAsyncIterator()
        for _ in 0..<TestDepth.limit(500, deep: 50_000) {
            var last = 0
            for _ in 0..<Int.random(in: 1...3) {
                last = sent.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
                sender.send()
            }
            // Without a call for the last number it would wait for ever.
            while let number = await seen.next(), number < last {}
        }
        observation.cancel()
    }

    @Test("an observation that is cancelled or released ends at once, and releases what it captures", arguments: pairs)
    func ending(_ pair: Pair) async throws {
        final class Captured: Sendable {
            let ended: AsyncStream<Void>.Continuation
            init(_ ended: AsyncStream<Void>.Continuation) { self.ended = ended }
            deinit { ended.finish() }
        }
        let (sender, receiver) = try pair.make()
        for isCancelled in [true, false] {
            let (calls, called) = AsyncStream.makeStream(of: Void.self)
            var observation: (any FileSignalObservation)?
            do {
                let captured = Captured(called)
                observation = try receiver.observe {
                    withExtendedLifetime(captured) { _ = called.yield() }
                    return nil
                }
            }
            var iterator = calls.makeAsyncIterator()
            #expect(await iterator.next() != nil)
            if isCancelled { observation?.cancel() } else { observation = nil }
            while await iterator.next() != nil {}
            withExtendedLifetime(observation) {}
            sender.send()
        }
    }

    @Test("an observer is called again after the time that it returns", arguments: pairs)
    func again(_ pair: Pair) async throws {
        try await expectThreeCalls(of: try pair.make().1)
    }

    @Test("an observer of a file without signals is called after the times that it returns")
    func polling() async throws {
        let signal = PollingSignal()
        signal.send()
        try await expectThreeCalls(of: signal)
    }

    private func expectThreeCalls(of signal: any FileSignal) async throws {
        let count = Atomic(0)
        let (calls, called) = AsyncStream.makeStream(of: Void.self)
        let observation = try signal.observe {
            called.yield()
            return count.wrappingAdd(1, ordering: .relaxed).newValue < 3 ? .milliseconds(1) : nil
        }
        var iterator = calls.makeAsyncIterator()
        for _ in 0..<3 { await iterator.next() }
        observation.cancel()
    }

    @Test("a process that has ended is not called")
    func ended() async throws {
        let fileSystem = InMemoryFileSystem()
        let other = fileSystem.process()
        let file = try fileSystem.open("/f", .readWrite, options: [.create])
        let (calls, called) = AsyncStream.makeStream(of: String.self)
        let signal = try #require(try other.makeSignal(of: try other.open("/f")))
        let observation = try signal.observe {
            called.yield("ended")
            return nil
        }
        var iterator = calls.makeAsyncIterator()
        #expect(await iterator.next() == "ended")
        other.endProcess()
        let living = try #require(try fileSystem.makeSignal(of: file))
        let second = try living.observe {
            called.yield("living")
            return nil
        }
        #expect(await iterator.next() == "living")
        living.send()
        #expect(await iterator.next() == "living")
        withExtendedLifetime((observation, second)) {}
    }
}
