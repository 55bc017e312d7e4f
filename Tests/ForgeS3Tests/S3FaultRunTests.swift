#if S3
import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing
@testable import ForgeS3

@Suite("Loads from a server in S3 that fails at random")
struct S3FaultRunTests {
    /// How many loads must succeed, and the seed: larger runs are those of `.ci/nightly s3-faults`.
    private static let variables = ProcessInfo.processInfo.environment
    private static let loads = variables["FORGE_S3_FAULT_LOADS"].flatMap { Int($0) } ?? 300
    private static let seed = variables["FORGE_S3_FAULT_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1_000_000)

    @Test("no load is torn, wrong or stale, and no upload is left after the sweep")
    func loads() async throws {
        print("faults of S3: \(Self.loads) loads, seed \(Self.seed)")
        let (tally, faults) = try await S3FaultRun(loads: Self.loads, seed: Self.seed).run()
        #expect(tally.wrong.isEmpty, "seed \(Self.seed)")
        #expect(tally.orphans == 0, "seed \(Self.seed)")
        #expect(tally.loads >= Self.loads)
        // The run has met every kind of fault, in case of a long run.
        if Self.loads >= 1_000 { #expect(faults?.counts.count == 11, "seed \(Self.seed)") }
        print(
            """
            faults of S3: \(tally.loads) loads, \(tally.wrong.count) wrong, \(tally.failedLoads) failed; \
            \(tally.saves) saves, \(tally.failedSaves) failed; \(tally.removed) uploads swept, \(tally.orphans) left; \
            \(faults?.requests ?? 0) requests, \(faults?.counts ?? [:])
            """)
    }

    @Test("a changed byte of a range, which no checksum covers, is found by the run")
    func planted() async throws {
        // Which requests meet the fault depends on the order of the tasks, so one run can miss it.
        for seed in Self.seed..<(Self.seed + 10) {
            let run = try S3FaultRun(loads: 800, seed: seed, oneOf: 4) { $0.path.hasPrefix("/b/ranged") }
            if try await !run.run().0.wrong.isEmpty { return }
        }
        Issue.record("ten runs from seed \(Self.seed) have not found the changed bytes")
    }
}

/// Loads and saves of a few files on a server that fails at random.
///
/// Every file has one task that saves versions of it, and tasks that load it whole, in ranges or as a stream. A load
/// must be of one version, which was not older than the last save that had returned when the load began, and whose save
/// did not fail.
final class S3FaultRun: Sendable {
    struct Tally: Sendable {
        var loads = 0
        var failedLoads: [String: Int] = [:]
        var saves = 0
        var failedSaves: [String: Int] = [:]
        var wrong: [String] = []
        var orphans = 0
        var removed = 0
    }

    /// The sizes of contents: below, at and above the size of a part, and of many parts.
    private static let sizes = [0, 5, 700, 1_000, 1_001, 2_500, 5_400, 12_000]

    private let server: FaultyS3
    private let store: S3FileStore
    private let seed: UInt64
    private let histories: [S3FaultHistory]
    private let tally = Mutex(Tally())
    private let limit: Int

    /// Creates a run. `damaging` says whether a request may get a changed byte: by default loads of the whole file
    /// alone, whose checksum is compared.
    init(
        loads: Int, seed: UInt64, oneOf rate: Int = 10,
        damaging: @escaping @Sendable (FaultyS3.Request) -> Bool = { $0.path.hasPrefix("/b/whole") }
    ) throws {
        server = try FaultyS3()
        store = try server.store()
        self.seed = seed
        limit = loads
        histories = ["whole/a", "whole/b", "whole/c", "ranged/a", "ranged/b", "both/c"].map { S3FaultHistory(key: $0) }
        faults = RandomFaults(seed: seed, oneOf: rate, damaging: damaging)
    }

    private let faults: RandomFaults

    /// Runs until enough loads have succeeded.
    func run() async throws -> (Tally, RandomFaults?) {
        for history in histories {
            let (version, content) = history.begin(size: 100, seed: seed)
            try await store.save(content, to: history.key)
            history.acknowledge(version)
        }
        server.meet(faults)
        await withTaskGroup(of: Void.self) { group in
            for (index, history) in histories.enumerated() {
                group.addTask { await self.saves(history, SplitMix64(seed: self.seed &+ UInt64(index) &* 1000)) }
                for number in 1...2 {
                    let seed = self.seed &+ UInt64(index) &* 1000 &+ UInt64(number)
                    group.addTask { await self.loads(history, SplitMix64(seed: seed)) }
                }
            }
        }
        let met = server.random
        server.meet(nil)
        for history in histories {
            await load(history, .whole)
            let impossible = history.impossible
            if !impossible.isEmpty { wrong("\(history.key): saves \(impossible) have failed and were loaded") }
        }
        let removed = try await store.removeAbandonedUploads(olderThan: .zero)
        let orphans = server.content.uploads.count
        await store.close()
        return (
            tally.withLock { tally in
                (tally.removed, tally.orphans) = (removed, orphans)
                return tally
            }, met
        )
    }

    private var isDone: Bool { tally.withLock { $0.loads >= limit } }

    private func wrong(_ text: String) { tally.withLock { $0.wrong.append(text) } }

    // MARK: Loads

    private enum Kind: CaseIterable { case whole, ranged, streamed }

    private func loads(_ history: S3FaultHistory, _ generator: SplitMix64) async {
        var generator = generator
        while !isDone {
            let isWhole = history.key.hasPrefix("whole")
            let kinds: [Kind] = isWhole ? [.whole, .streamed] : [.whole, .ranged, .streamed]
            guard let kind = kinds.randomElement(using: &generator) else { return }
            await load(history, kind, &generator)
        }
    }

    private func load(_ history: S3FaultHistory, _ kind: Kind) async {
        var generator = SplitMix64(seed: seed)
        await load(history, kind, &generator)
    }

    private func load(_ history: S3FaultHistory, _ kind: Kind, _ generator: inout SplitMix64) async {
        let oldest = history.oldest
        do {
            var parts: [(offset: Int, bytes: Data)] = []
            var size = 0
            switch kind {
            case .whole:
                parts = [(0, try await store.load(history.key))]
                size = parts[0].bytes.count
            case .streamed:
                var content = Data()
                for try await part in store.contents(of: history.key) { content += part }
                (parts, size) = ([(0, content)], content.count)
            case .ranged:
                let reader = try await store.reader(for: history.key)
                size = Int(reader.file.sizeInBytes)
                for _ in 0..<3 {
                    let start = Int.random(in: 0...size, using: &generator)
                    let end = Int.random(in: start...size, using: &generator)
                    parts.append((start, try await reader.read(Int64(start)..<Int64(end))))
                    guard parts.last?.bytes.count == end - start else {
                        wrong("\(history.key): \(start)..<\(end) of \(size) bytes has another size")
                        return
                    }
                }
            }
            if !history.explains(parts, size: size, since: oldest) {
                wrong("\(history.key): a \(kind) load of \(size) bytes is of no version since \(oldest)")
            }
            tally.withLock { $0.loads += 1 }
        } catch {
            tally.withLock { $0.failedLoads[Self.name(error), default: 0] += 1 }
            // The file always exists.
            let expected: [FileStoreError.Code] = [.conflict, .unavailable(.inputOutput), .unavailable(.server)]
            if !expected.contains(where: { $0 == (error as? FileStoreError)?.code }) {
                wrong("\(history.key): a \(kind) load has thrown \(error)")
            }
        }
    }

    private static func name(_ error: any Error) -> String {
        guard let error = error as? FileStoreError else { return "\(type(of: error))" }
        return "\(error.code)"
    }

    // MARK: Saves

    private func saves(_ history: S3FaultHistory, _ generator: SplitMix64) async {
        var generator = generator
        while !isDone {
            let size = Self.sizes.randomElement(using: &generator) ?? 0
            let (version, content) = history.begin(size: size, seed: generator.next())
            let kind = Int.random(in: 0..<6, using: &generator)
            let save = Task { try await self.save(content, to: history.key, kind: kind) }
            if kind == 0 {
                do { try await Task.sleep(for: .milliseconds(Int.random(in: 0...20, using: &generator))) } catch {}
                save.cancel()
            }
            switch await save.result {
            case .success(true):
                history.acknowledge(version)
                tally.withLock { $0.saves += 1 }
            case .success(false):
                history.refuse(version)
            case .failure(let error):
                tally.withLock { $0.failedSaves[Self.name(error), default: 0] += 1 }
                // A cancelled call does not say what was sent.
                let isOpen = error is CancellationError || (error as? FileStoreError)?.code == .unknownOutcome
                if isOpen { history.leaveOpen(version) } else { history.refuse(version) }
            }
        }
    }

    /// Saves in one of several ways; returns whether the content is stored.
    private func save(_ content: Data, to key: String, kind: Int) async throws -> Bool {
        switch kind {
        case 1:
            let revision = try await store.revision(of: key)
            try await store.save(content, to: key, if: .unchanged(revision))
        case 2:
            let writer = try store.writer(for: key)
            try await writer.write(content.prefix(600))
            try await writer.write(content.dropFirst(600))
            try await writer.commit()
        case 3:
            do {
                try await store.save(content, to: key, overwrite: false)
                wrong("\(key): an exclusive save has replaced a file")
            } catch let error as FileStoreError where error.code == .alreadyExists {
                return false
            }
        default: try await store.save(content, to: key)
        }
        return true
    }
}

/// The versions of one file, which one task saves and others load.
final class S3FaultHistory: Sendable {
    private struct State {
        var contents: [Int: Data] = [:]

        /// The newest version that was begun.
        var begun = 0

        /// The newest version whose save has returned.
        var acknowledged = 0

        /// Versions whose saves have failed without an effect.
        var refused: Set<Int> = []

        /// Versions that the server may still store, although their saves have ended.
        var uncertain: Set<Int> = []

        /// Versions that were loaded.
        var loaded: Set<Int> = []
    }

    let key: String
    private let state = Mutex(State())

    init(key: String) {
        self.key = key
    }

    // MARK: Saves

    /// Begins a version: the content of a seed and a size.
    func begin(size: Int, seed: UInt64) -> (version: Int, content: Data) {
        var generator = SplitMix64(seed: seed)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size + 8)
        while bytes.count < size { withUnsafeBytes(of: generator.next()) { bytes += $0 } }
        let content = Data(bytes.prefix(size))
        let version = state.withLock { state in
            state.begun += 1
            state.contents[state.begun] = content
            return state.begun
        }
        return (version, content)
    }

    func acknowledge(_ version: Int) { state.withLock { $0.acknowledged = version } }

    func leaveOpen(_ version: Int) { state.withLock { _ = $0.uncertain.insert(version) } }

    func refuse(_ version: Int) { state.withLock { _ = $0.refused.insert(version) } }

    // MARK: Loads

    /// The oldest version that a load which begins now may see.
    var oldest: Int { state.withLock { $0.acknowledged } }

    /// Whether all parts of a load are of one version that it may have seen.
    func explains(_ parts: [(offset: Int, bytes: Data)], size: Int, since oldest: Int) -> Bool {
        state.withLock { state in
            let possible = state.uncertain.union(oldest...state.begun)
            let versions = possible.filter { version in
                guard let content = state.contents[version], content.count == size else { return false }
                return parts.allSatisfy { content.dropFirst($0.offset).prefix($0.bytes.count) == $0.bytes }
            }
            // Contents of a few bytes can be equal.
            if versions.count == 1, size > 8 { state.loaded.formUnion(versions) }
            let (kept, uncertain) = (state.acknowledged - 1_000, state.uncertain)
            state.contents = state.contents.filter { $0.key >= kept || uncertain.contains($0.key) }
            return !versions.isEmpty
        }
    }

    /// Versions that were loaded although their saves have failed.
    var impossible: [Int] { state.withLock { $0.loaded.intersection($0.refused).sorted() } }
}

/// Faults that a server chooses at random, by a seed.
struct RandomFaults: Sendable {
    private var generator: SplitMix64

    /// One of how many requests meets a fault.
    private let rate: Int

    /// Whether a request may get a changed byte.
    private let damages: @Sendable (FaultyS3.Request) -> Bool

    /// How many requests there were.
    private(set) var requests = 0

    /// How many requests have met each fault.
    private(set) var counts: [String: Int] = [:]

    init(seed: UInt64, oneOf rate: Int, damaging damages: @escaping @Sendable (FaultyS3.Request) -> Bool) {
        generator = SplitMix64(seed: seed)
        self.rate = rate
        self.damages = damages
    }

    /// The fault of a request; nil for most.
    mutating func next(_ request: FaultyS3.Request) -> FaultyS3.Fault? {
        requests += 1
        guard Int.random(in: 0..<rate, using: &generator) == 0 else { return nil }
        let all = faults(of: request)
        guard let (name, fault) = all.randomElement(using: &generator) else { return nil }
        counts[name, default: 0] += 1
        return fault
    }

    private mutating func faults(of request: FaultyS3.Request) -> [(String, FaultyS3.Fault)] {
        let delay = Duration.milliseconds(Int.random(in: 1...30, using: &generator))
        var faults: [(String, FaultyS3.Fault)] = [
            ("500", .fails(500, "InternalError")), ("503", .fails(503, "SlowDown")), ("lost request", .losesRequest),
            ("lost answer", .losesAnswer), ("late answer", .isLate(delay)), ("cut answer", .cutsBody),
            ("200 with an error", .hidesAnswer("InternalError")),
        ]
        // A proxy must not repeat a request that is not idempotent (RFC 9110, 9.2.2); the end of an upload is.
        if request.query["uploads"] == nil || request.method == "GET" { faults.append(("repeated", .repeats)) }
        if request.method == "GET", request.query.isEmpty {
            faults.append(("shorter answer", .shortens))
            if damages(request) { faults.append(("changed byte", .damages)) }
        }
        let isEnd = request.method == "POST" && request.query["uploadId"] != nil
        if isEnd || request.method == "PUT" && request.query.isEmpty {
            faults.append(("409", .fails(409, "ConditionalRequestConflict")))
        }
        return faults
    }
}
#endif
