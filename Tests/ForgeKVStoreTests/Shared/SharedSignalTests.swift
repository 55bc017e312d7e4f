import ChildProcesses
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Opens a shared store that does not poll.
private func openShared(_ path: String) throws -> FileKVStore {
    var options = FileKVStore.Options(sharing: .shared)
    options.lockTimeout = .seconds(60)
    options.pollingInterval = .seconds(86_400)
    return try FileKVStore(at: URL(filePath: path), options: options)
}

private let (ping, pong) = (KVKey<Int>("ping"), KVKey<Int>("pong"))

/// Returns every number that it receives, up to a last one.
private func answer(_ path: String, last: Int) async throws {
    let store = ReactiveKVStore(try openShared(path))
    for await value in store.stream(ping) {
        guard let value else { continue }
        try store.set(pong, value: value)
        if value == last { break }
    }
}

/// The number of times that threads of this process other than the calling one have begun to wait, during two seconds.
private func switchesOfOtherThreads() throws -> Int {
    #if os(Linux)
    let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self").split(separator: "/").last
    func counts() throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")
        where thread != own.map({ String($0) }) {
            // Nil for a thread that has ended meanwhile.
            let status = FileManager.default.contents(atPath: "/proc/self/task/\(thread)/status")
            let lines = String(decoding: status ?? Data(), as: UTF8.self).split(separator: "\n")
            let line = lines.first { $0.hasPrefix("voluntary_ctxt_switches:") }
            counts[thread] = line?.split(separator: "\t").last.flatMap { Int($0) }
        }
        return counts
    }
    let before = try counts()
    sleep(2)
    return try counts().reduce(0) { $0 + $1.value - (before[$1.key] ?? $1.value) }
    #else
    return 0
    #endif
}

/// Observes a store, and ends with the number of switches while it waits, and 100 if a change does not arrive afterwards.
private func waitIdly(_ path: String) async throws -> Int32 {
    let store = ReactiveKVStore(try openShared(path))
    var numbers = store.stream(ping).makeAsyncIterator()
    #expect(await numbers.next() == .some(1))
    let count = try switchesOfOtherThreads()
    try store.set(pong, value: 1)
    let isChanged = await numbers.next() == .some(2)
    withExtendedLifetime(store) {}
    guard isChanged else { return 100 }
    return Int32(min(count, 99))
}

@Suite("Signals of a shared store", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct SharedSignalTests {
    private let fixture = SharedFixture()

    @Test(
        "the last of random writes reaches every observer, with no timer",
        arguments: 0..<TestDepth.limit(60, deep: 2000))
    func lastWrite(_ seed: Int) async throws {
        var random = SplitMix64(seed: UInt64(seed))
        let (first, second) = try fixture.pair()
        let stores = [ReactiveKVStore(first), ReactiveKVStore(second)]
        let plan = (0..<2).map { _ in (0..<30).map { _ in Int.random(in: 0..<4, using: &random) } }
        await withTaskGroup(of: Void.self) { group in
            for (index, store) in stores.enumerated() {
                group.addTask { [plan] in
                    for (number, step) in plan[index].enumerated() {
                        switch step {
                        case 0: await Task.yield()
                        case 1:
                            // A subscription that begins and ends beside the writes.
                            var changes = store.stream(ping).makeAsyncIterator()
                            _ = await changes.next()
                        default: while code({ try store.set(ping, value: number) }) != nil {}
                        }
                    }
                    while code({ try store.set(KVKey<Int>("end \(index)"), value: 1) }) != nil {}
                }
                group.addTask {
                    for await end in store.stream(KVKey<Int>("end \(1 - index)")) where end == 1 { break }
                }
            }
        }
    }

    @Test("the page shows that a process observes the store, until the last stream or the store ends")
    func mark() throws {
        let directory = TemporaryDirectory()
        let store = try openShared(directory.url.path)
        func isMarked() throws -> Bool {
            let bytes = try SystemFileSystem().readFile(POSIXPath(directory.url.path + "/#shared"))
            let start = SharedPageContent.observersOffset
            return bytes[start..<start + SharedPageContent.observersSize].contains { $0 != 0 }
        }
        #expect(try !isMarked())
        do {
            let changes = store.subscribe(to: .prefix(""))
            #expect(try isMarked())
            withExtendedLifetime(changes) {}
        }
        #expect(try !isMarked())
        let changes = store.subscribe(to: .prefix(""))
        #expect(try isMarked())
        try store.close()
        #expect(try !isMarked())
        withExtendedLifetime((changes, store.subscribe(to: .prefix("")))) {}
        #expect(try !isMarked())
    }

    @Test(
        "where there are no signals, or none can be waited for, changes are found by polling", arguments: [true, false])
    func polling(_ hasSignals: Bool) async throws {
        struct FailingSignal: FileSignal {
            func send() {}

            func observe(
                _ body: @escaping @Sendable () -> Duration?
            ) throws(FileSystemError) -> any FileSignalObservation {
                throw FileSystemError(.watch, .resourceTemporarilyUnavailable)
            }
        }
        final class WithoutSignals: InterceptingFileSystem {
            let forwarded: any POSIXFileSystem
            let signal: FailingSignal?

            init(_ base: any POSIXFileSystem, _ signal: FailingSignal?) { (forwarded, self.signal) = (base, signal) }

            func intercept(_ call: InterceptedCall) {}

            func makeSignal(of descriptor: Descriptor) -> (any FileSignal)? { signal }
        }
        let second = try fixture.open(fixture.process(2))
        var options = fixture.options(1)
        options.pollingInterval = .milliseconds(1)
        let first = try FileKVStore(
            at: fixture.path,
            fileSystem: WithoutSignals(fixture.process(1).fileSystem, hasSignals ? FailingSignal() : nil),
            options: options)
        let reactive = ReactiveKVStore(first)
        var numbers = reactive.stream(ping).makeAsyncIterator()
        #expect(await numbers.next() == .some(nil))
        for number in 1...3 {
            try second.set(ping, value: number)
            #expect(await numbers.next() == .some(number))
        }
        withExtendedLifetime(reactive) {}
    }
}

// Serialized with the other tests in which two processes wait for each other.
extension SharedProcessTests {
    @Test("a change arrives in another process within 20 ms, and back", .onOwnThreads)
    func latency() async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        let own = ReactiveKVStore(try openShared(path))
        let last = 200
        let other = Task(executorPreference: OwnThreadsTrait.executor) {
            await #expect(processExitsWith: .success) { [path = path as String, last = last as Int] in
                try await answer(path, last: last)
            }
        }
        var answers = own.stream(pong).makeAsyncIterator()
        #expect(await answers.next() == .some(nil))
        var times: [Duration] = []
        for value in 1...last {
            let start = ContinuousClock.now
            try own.set(ping, value: value)
            #expect(await answers.next() == .some(value))
            times.append(ContinuousClock.now - start)
        }
        _ = await other.value
        #expect(times.sorted()[last / 2] <= .milliseconds(40), "there and back")
    }

    @Test("a process that observes a store sleeps until something changes", .onOwnThreads)
    func idle() async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        let own = ReactiveKVStore(try openShared(path))
        try own.set(ping, value: 1)
        let other = Task(executorPreference: OwnThreadsTrait.executor) {
            let result = await #expect(processExitsWith: .failure) { [path = path as String] in
                exit(try await waitIdly(path) + 100)
            }
            return result?.exitStatus
        }
        for await value in own.stream(pong) where value == 1 { break }
        try own.set(ping, value: 2)
        let status = await other.value
        // The threads of the runtime may settle.
        #expect((Int32(0)...3).contains { status == .exitCode(100 + $0) }, "\(String(describing: status))")
    }

    @Test("a process that another program has removed from the page still gets changes", .onOwnThreads)
    func truncatedPage() async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        let own = ReactiveKVStore(try openShared(path))
        var numbers = own.stream(ping).makeAsyncIterator()
        #expect(await numbers.next() == .some(nil))
        for number in 1...3 {
            let page = POSIXPath(path + "/#shared")
            if number > 1 {
                try SystemFileSystem().truncate(
                    .path(page, at: .workingDirectory, followsSymbolicLinks: false), to: 0)
            }
            await #expect(processExitsWith: .success) { [path = path as String, number = number as Int] in
                try openShared(path).set(ping, value: number)
            }
            #expect(await numbers.next() == .some(number))
        }
        withExtendedLifetime(own) {}
    }
}
