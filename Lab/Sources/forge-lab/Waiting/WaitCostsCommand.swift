import ArgumentParser
import Dispatch
import ForgeFileStore
import ForgeFileSystem
import ForgeStorage
import Foundation
import SystemPackage

/// Measures what waiting costs: the cancellation of many calls that wait, and calls from the main actor.
///
/// Build it in release: `swift build -c release --product forge-lab`.
struct WaitCostsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait-costs", abstract: "Measure the cancellation of waiting calls, and calls from the main actor."
    )

    @Option(help: "The number of waiting calls that are cancelled.")
    var count = 16_000

    func run() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "wait-costs-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try await cancelCallersOfCache(directory.appending(path: "cache"))
        try await cancelCallsOfLane()
        try await cancelSaves(directory.appending(path: "locked"))
        let store = DiskFileStore(
            root: directory.appending(path: "files"), options: FileStoreOptions(durability: .none))
        try await store.save(Data("content".utf8), to: "file")
        let own = try await Self.times(store)
        let main = try await Self.timesOnMainActor(store)
        print("load from memory: from a task \(own.load), from the main actor \(main.load)")
        print("save, not durable: from a task \(own.save), from the main actor \(main.save)")
        try FileManager.default.removeItem(at: directory)
    }

    // MARK: Cancellation

    private func cancelCallersOfCache(_ directory: URL) async throws {
        let cache = try BoundedCache<Data>(directory: directory, coding: .bytes)
        try await measureCancellation("callers of a key of a cache") {
            try await cache.value(for: "a") {
                try await Task.sleep(for: .seconds(60))
                return Data()
            }
        } areWaiting: {
            cache.statistics.memory.missCount >= count
        }
    }

    private func cancelCallsOfLane() async throws {
        let gate = DispatchSemaphore(value: 0)
        let lane = BlockingLane(limit: 1)
        let stuck = Task { await lane.run { gate.wait() } }
        while lane.threadCount == 0 || lane.waitingCount > 0 { await Task.yield() }
        try await measureCancellation("calls that wait for a thread") {
            try await lane.run(within: nil) { _ in }
        } areWaiting: {
            lane.waitingCount == count
        }
        gate.signal()
        await stuck.value
    }

    private func cancelSaves(_ directory: URL) async throws {
        let store = DiskFileStore(root: directory, options: FileStoreOptions(durability: .none, deadline: nil))
        try await store.save(Data(), to: "file")
        let system = SystemFileSystem()
        let lock = try system.open(try POSIXPath(directory), .readOnly, options: [.directory], permissions: [])
        try system.lock(lock, .exclusive, waiting: false)
        let start = ContinuousClock.now
        try await measureCancellation("saves that wait for a locked directory") {
            try await store.save(Data("new".utf8), to: "file")
        } areWaiting: {
            ContinuousClock.now - start > .seconds(3)
        }
        system.discard(lock)
    }

    private func measureCancellation<Value: Sendable>(
        _ name: String, _ call: @escaping @Sendable () async throws -> Value, areWaiting: () -> Bool
    ) async throws {
        let calls = (0..<count).map { _ in Task { _ = try await call() } }
        while !areWaiting() { await Task.yield() }
        let start = ContinuousClock.now
        for call in calls { call.cancel() }
        let cancelled = ContinuousClock.now
        var results: [Result<Void, any Error>] = []
        results.reserveCapacity(count)
        for call in calls { results.append(await call.result) }
        let end = ContinuousClock.now
        // The tasks are destroyed after that.
        withExtendedLifetime(calls) {}
        let cancelledCount = results.count {
            if case .failure(let error) = $0 { error is CancellationError } else { false }
        }
        print("\(cancelledCount) cancelled \(name): cancel() \(cancelled - start), all have ended after \(end - start)")
    }

    // MARK: Actors

    private static func times(_ store: DiskFileStore) async throws -> (load: Duration, save: Duration) {
        var times: [[Duration]] = [[], []]
        for _ in 0..<3_000 {
            let start = ContinuousClock.now
            _ = try await store.load("file")
            let middle = ContinuousClock.now
            try await store.save(Data("content".utf8), to: "file")
            times[0].append(middle - start)
            times[1].append(ContinuousClock.now - middle)
        }
        let medians = times.map { $0.sorted()[$0.count / 2] }
        return (medians[0], medians[1])
    }

    @MainActor
    private static func timesOnMainActor(_ store: DiskFileStore) async throws -> (load: Duration, save: Duration) {
        var times: [[Duration]] = [[], []]
        for _ in 0..<3_000 {
            let start = ContinuousClock.now
            _ = try await store.load("file")
            let middle = ContinuousClock.now
            try await store.save(Data("content".utf8), to: "file")
            times[0].append(middle - start)
            times[1].append(ContinuousClock.now - middle)
        }
        let medians = times.map { $0.sorted()[$0.count / 2] }
        return (medians[0], medians[1])
    }
}
