import Dispatch
import ForgeKVStore
import Foundation
import Measuring
import Synchronization

/// A thread that reads while another continuously stores the same 1,000 keys, compared with a reader alone.
struct ReaderBesideWriter {
    private let workspace: Workspace
    private let samples = Samples<String>(1_000)

    private static let rounds = 300
    private static let runs = 9

    init(_ workspace: Workspace) { self.workspace = workspace }

    /// The line and its peers, each compared with its own reader alone.
    func line() throws -> GoalLine {
        let store = try FileKVStore(at: workspace.place("reader-writer"))
        let samples = samples
        let read = samples.reordered()
        for (key, value) in zip(samples.keys, samples.values) { try store.set(key, value: value) }
        let rounds = Self.rounds
        let (alone, beside) = try measure("FileKVStore") {
            for _ in 0..<rounds { for key in read.keys { keep(store.get(key)) } }
        } write: { values in
            for (index, key) in samples.keys.enumerated() { try store.set(key, value: values[index]) }
        }
        try check("FileKVStore", samples.names, samples.others) { try store.read(KVKey<String>($0)) }
        let dictionary = DictionaryStore()
        dictionary.setTogether(samples.names, samples.values)
        let (aloneInDictionary, besideInDictionary) = try measure("[String: any Sendable] and Mutex") {
            for _ in 0..<rounds { for name in read.names { keep(dictionary.get(name, as: String.self)) } }
        } write: { values in
            for (index, name) in samples.names.enumerated() { dictionary.set(name, values[index]) }
        }
        var peers = [
            GoalLine.Peer("alone", .nanoseconds(alone.median)), peer(aloneInDictionary, besideInDictionary),
        ]
        let (aloneSpinning, besideSpinning) = try measure(Spinning.title) {
            Spinning.run(rounds * 20_000)
        } write: { _ in
            Spinning.run(100_000)
        }
        peers.append(peer(aloneSpinning, besideSpinning))
        #if canImport(CLMDB)
        nonisolated(unsafe) let lmdb = try LMDBStore(try workspace.directory("lmdb-reader-writer"), .mapped)
        try lmdb.setTogether(samples.names, samples.values)
        let (aloneInLMDB, besideInLMDB) = try measure("LMDB, NOSYNC, WRITEMAP, MAPASYNC") {
            for _ in 0..<rounds { for name in read.names { keep(try lmdb.get(name, as: String.self)) } }
        } write: { values in
            for (index, name) in samples.names.enumerated() { try lmdb.set(name, values[index]) }
        }
        try check("LMDB", samples.names, samples.others) { try lmdb.get($0, as: String.self) }
        peers.append(peer(aloneInLMDB, besideInLMDB))
        #endif
        return GoalLine(
            "get String while another thread writes: speed", .ratioAtLeast(0.6), beside,
            ratio: alone.median / beside.median, peers: peers)
    }

    private func peer(_ alone: Measurement, _ beside: Measurement) -> GoalLine.Peer {
        GoalLine.Peer(beside.name, .nanoseconds(beside.median), ratio: alone.median / beside.median)
    }

    /// The time per read, alone and beside a writer, interleaved.
    private func measure(
        _ name: String, read: @escaping @Sendable () throws -> Void,
        write: @escaping @Sendable ([String]) throws -> Void
    ) throws -> (alone: Measurement, beside: Measurement) {
        let count = Double(Self.rounds * samples.keys.count)
        var alone: [Double] = []
        var beside: [Double] = []
        for run in 0...Self.runs {
            let quiet = try nanoseconds(inThreads: 1) { _ in try read() } / count
            let disturbed = try besideWriter(read, write) / count
            guard run > 0 else { continue }
            alone.append(quiet)
            beside.append(disturbed)
        }
        return (Measurement(name, nanoseconds: alone), Measurement(name, nanoseconds: beside))
    }

    /// The time of reading while a writer runs, which starts before and ends after.
    private func besideWriter(
        _ read: @escaping @Sendable () throws -> Void, _ write: @escaping @Sendable ([String]) throws -> Void
    ) throws -> Double {
        let writer = Writer(samples)
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            writer.run(write)
            done.signal()
        }
        writer.started.wait()
        let outcome = Result { try nanoseconds(inThreads: 1) { _ in try read() } }
        writer.stop()
        done.wait()
        try writer.error.withLock { if let error = $0 { throw error } }
        return try outcome.get()
    }

    /// Stores both sets of values alternately until stopped, ending with the second.
    private final class Writer: Sendable {
        let started = DispatchSemaphore(value: 0)
        let error = Mutex<(any Error)?>(nil)
        private let isStopped = Atomic(false)
        private let samples: Samples<String>

        init(_ samples: Samples<String>) { self.samples = samples }

        func stop() { isStopped.store(true, ordering: .relaxed) }

        func run(_ write: ([String]) throws -> Void) {
            do {
                try write(samples.values)
                try write(samples.others)
                started.signal()
                while !isStopped.load(ordering: .relaxed) {
                    try write(samples.values)
                    try write(samples.others)
                }
            } catch {
                self.error.withLock { $0 = error }
                started.signal()
            }
        }
    }
}
