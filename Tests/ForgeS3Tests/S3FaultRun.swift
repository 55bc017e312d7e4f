#if S3
import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization

@testable import ForgeS3

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
        store = try server.store { $0.abandonedUploadAge = .seconds(3600) }
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
        let removed = try await store.removeUploads(olderThan: .zero)
        let orphans = server.content.uploads.count + server.ownObjects.filter { $0.contains("uploads/") }.count
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
#endif
