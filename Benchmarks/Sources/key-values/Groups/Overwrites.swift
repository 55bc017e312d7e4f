import ForgeFileSystem
import ForgeKVStore
import Foundation
import Measuring
import SystemPackage

/// A million sets of 1,000 keys: the total time, the longest set, and the file sizes.
///
/// The clock is read after each set, which adds about 25 ns to both figures.
struct Overwrites {
    private let workspace: Workspace
    private let samples = Samples<String>(1_000)

    private static let rounds = 1_000
    private static let runs = 3

    init(_ workspace: Workspace) { self.workspace = workspace }

    private struct Run {
        var total: Double
        var longest: Double
    }

    /// Lines for the total, the longest set, and the final and maximum file sizes.
    func lines() throws -> [GoalLine] {
        var runs: [Run] = []
        for number in 0..<Self.runs {
            let store = try FileKVStore(at: workspace.place("overwrite-\(number)"))
            runs.append(try run { try store.set(samples.keys[$0], value: $1) })
            try check("FileKVStore", samples.names, samples.others) { try store.read(KVKey<String>($0)) }
        }
        var peers: [(name: String, run: Run)] = []
        let dictionary = DictionaryStore()
        peers.append(("[String: any Sendable] and Mutex, lost", run { dictionary.set(samples.names[$0], $1) }))
        #if canImport(CLMDB)
        let lmdb = try LMDBStore(try workspace.directory("lmdb-overwrite"), .mapped)
        peers.append(("LMDB, NOSYNC, WRITEMAP, MAPASYNC", try run { try lmdb.set(samples.names[$0], $1) }))
        try check("LMDB", samples.names, samples.others) { try lmdb.get($0, as: String.self) }
        #endif
        let total = Measurement("FileKVStore", nanoseconds: runs.map(\.total))
        let longest = Measurement("FileKVStore", nanoseconds: runs.map(\.longest))
        return try [
            GoalLine(
                "1000000 overwrites of 1000 keys, String", .atMost(.nanoseconds(400e6)), total,
                peers: peers.map { GoalLine.Peer($0.name, .nanoseconds($0.run.total)) }),
            GoalLine(
                "overwrites: longest single set of all runs", .atMost(.nanoseconds(5e6)),
                .nanoseconds(longest.slowest),
                peers: peers.map { GoalLine.Peer($0.name, .nanoseconds($0.run.longest)) }),
        ] + sizes()
    }

    private func run(_ set: (Int, String) throws -> Void) rethrows -> Run {
        let clock = ContinuousClock()
        let start = clock.now
        var last = start
        var longest = Duration.zero
        for round in 0..<Self.rounds {
            let values = samples.values(ofRound: round)
            for index in samples.keys.indices {
                try set(index, values[index])
                let now = clock.now
                longest = max(longest, now - last)
                last = now
            }
        }
        return Run(total: (last - start) / .nanoseconds(1), longest: longest / .nanoseconds(1))
    }

    /// The file sizes after closing and their maximum before, relative to a freshly compacted log. Measured in a
    /// separate run, because looking costs time.
    private func sizes() throws -> [GoalLine] {
        let path = POSIXPath(workspace.place("overwrite-sizes").path)
        var most: Int64 = 0
        do {
            let store = try FileKVStore(at: path)
            var count = 0
            _ = try run { index, value in
                try store.set(samples.keys[index], value: value)
                count += 1
                if count % 500 == 0 { most = max(most, try size(of: path)) }
            }
        }
        let end = try size(of: path)
        do { try FileKVStore(at: path).compact() }
        let live = try SystemFileSystem().status(path.appending("log")).sizeInBytes
        return [
            GoalLine(
                "overwrites: files of the closed store, times live data", .ratioAtMost(2), .bytes(Double(end)),
                ratio: Double(end) / Double(live),
                peers: [GoalLine.Peer("live data: the log as compact() leaves it", .bytes(Double(live)))]),
            GoalLine(
                "overwrites: files at most while it is open, times live data", .none, .bytes(Double(most)),
                ratio: Double(most) / Double(live)),
        ]
    }

    private func size(of directory: POSIXPath) throws -> Int64 {
        let fileSystem = SystemFileSystem()
        return try fileSystem.withDirectory(directory) { (descriptor) throws(FileSystemError) in
            var size: Int64 = 0
            for entry in try fileSystem.entries(of: descriptor) {
                do throws(FileSystemError) {
                    size += try fileSystem.status(entry.name, at: descriptor, followsSymbolicLinks: false).sizeInBytes
                } catch  where error.errno == .noSuchFileOrDirectory {
                    // A compacted log has just been renamed into place.
                }
            }
            return size
        }
    }
}
