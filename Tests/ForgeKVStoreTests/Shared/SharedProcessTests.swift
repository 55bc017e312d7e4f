import ChildProcesses
import ForgeFileSystem
import ForgeKVStore
import Foundation
import SystemPackage
import TestDepth
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Opens a shared store as the processes of these tests do.
private func openShared(_ path: String, compactionFloorInBytes: Int = 20_000) throws -> FileKVStore {
    var options = FileKVStore.Options(compactionFloorInBytes: compactionFloorInBytes)
    options.sharing = .shared
    options.lockTimeout = .seconds(60)
    return try FileKVStore(at: URL(filePath: path), options: options)
}

/// Returns every received number, up to 20.
private func answer(_ path: String) async throws {
    let store = ReactiveKVStore(try openShared(path))
    for await value in store.stream(KVKey<Int>("ping")) {
        guard let value else { continue }
        try store.set(KVKey<Int>("pong"), value: value)
        if value == 20 { break }
    }
}

/// Opens the store, reports it, and keeps it open until asked to end.
private func waitUntilDone(_ path: String) async throws {
    let store = ReactiveKVStore(try openShared(path))
    let done = store.stream(KVKey<Bool>("done"))
    try store.set(KVKey<Bool>("ready"), value: true)
    for await isDone in done where isDone == true { break }
}

/// Expects that no process has locked a file or directory of a store.
private func expectFree(_ path: POSIXPath) throws {
    let system = SystemFileSystem()
    let lock = try system.open(path, .readOnly)
    // The other process may still be in the call that notified this one.
    var attempts = 0
    while code({ try take(lock) }) != nil, attempts < 10_000 {
        attempts += 1
        usleep(1000)
    }
    try take(lock)
    try system.lock(lock, .unlocked, waiting: false)
    #if os(Linux)
    let inode = try system.status(of: .descriptor(lock)).inode
    let locks = try String(contentsOfFile: "/proc/locks", encoding: .utf8)
    #expect(!locks.contains(":\(inode) "), "\(locks)")
    #endif
    try system.close(lock)
}

private func take(_ lock: Descriptor) throws(KVStoreError) {
    do throws(FileSystemError) {
        try SystemFileSystem().lock(lock, .exclusive, waiting: false)
    } catch {
        throw KVStoreError(.unavailable(.inUse(processID: nil)), .open, underlying: error)
    }
}

@Suite(
    "A store that real processes share", .serialized, .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct SharedProcessTests {
    private let directory = TemporaryDirectory()
    private let count = KVKey<Int>("count")
    private var path: String { directory.url.path }

    @Test("four processes that count 1,000 times each lose no count", .onOwnThreads)
    func counting() async throws {
        let own = try openShared(path)
        #expect(own.get(count) == nil)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask { [path] in
                    await #expect(processExitsWith: .success) { [path = path as String] in
                        let store = try openShared(path)
                        for _ in 0..<1000 { try store.update(KVKey<Int>("count"), default: 0) { $0 += 1 } }
                    }
                }
            }
        }
        #expect(own.get(count) == 4000)
        #expect(try own.read(count) == 4000)
    }

    @Test(
        "a change reaches a stream in another process and back", .onOwnThreads,
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func streams() async throws {
        let (ping, pong) = (KVKey<Int>("ping"), KVKey<Int>("pong"))
        let own = ReactiveKVStore(try openShared(path))
        let other = Task(executorPreference: OwnThreadsTrait.executor) { [path] in
            await #expect(processExitsWith: .success) { [path = path as String] in try await answer(path) }
        }
        var answers = own.stream(pong).makeAsyncIterator()
        #expect(await answers.next() == .some(nil))
        for value in 1...20 {
            try own.set(ping, value: value)
            #expect(await answers.next() == .some(value))
        }
        _ = await other.value
    }

    @Test(
        "no lock is held between calls while two processes have the store open", .onOwnThreads,
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func noLock() async throws {
        let own = ReactiveKVStore(try openShared(path))
        let other = Task(executorPreference: OwnThreadsTrait.executor) { [path] in
            await #expect(processExitsWith: .success) { [path = path as String] in try await waitUntilDone(path) }
        }
        for await isReady in own.stream(KVKey<Bool>("ready")) where isReady == true { break }
        try expectFree(POSIXPath(path + "/#lock"))
        try expectFree(POSIXPath(path))
        try own.set(KVKey<Bool>("done"), value: true)
        _ = await other.value
    }

    @Test(
        "the error of an exclusive opening contains a sharer, that of a shared opening the exclusive owner",
        .onOwnThreads)
    func inUse() async throws {
        let own = ProcessInfo.processInfo.processIdentifier
        do {
            let store = try openShared(path)
            try store.set(count, value: 1)
            await #expect(processExitsWith: .exitCode(7)) { [path = path as String, own = own as Int32] in
                do {
                    _ = try FileKVStore(at: URL(filePath: path))
                } catch let error as KVStoreError {
                    exit(error.code == .unavailable(.inUse(processID: own)) ? 7 : 8)
                }
            }
        }
        let store = try FileKVStore(at: directory.url)
        try store.set(count, value: 2)
        await #expect(processExitsWith: .exitCode(7)) { [path = path as String, own = own as Int32] in
            do {
                _ = try openShared(path)
            } catch let error as KVStoreError {
                exit(error.code == .unavailable(.inUse(processID: own)) ? 7 : 8)
            }
        }
    }

    @Test("a killed sharer does not prevent an exclusive opening", .onOwnThreads)
    func killedUser() async throws {
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            let store = try openShared(path)
            try store.set(KVKey<Int>("count"), value: 3)
            kill(getpid(), SIGKILL)
            withExtendedLifetime(store) {}
        }
        #expect(try FileKVStore(at: directory.url).get(count) == 3)
    }

    @Test(
        "a killed process loses no acknowledged write, and another continues writing", .onOwnThreads,
        arguments: 0..<TestDepth.limit(1, deep: 12))
    func killed(_ round: Int) async throws {
        let own = try openShared(path + "/store", compactionFloorInBytes: 5000)
        let delay = UInt32((round * 7 + 3) % 60) * 500
        let isOver = Flag()
        let writing = Task.detached { () throws -> Int in
            var last = 0
            while !isOver.isSet {
                last += 1
                try own.set(KVKey<[String]>("own \(last % 20)"), value: [String](repeating: "\(last)", count: 5))
            }
            return last
        }
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, delay = delay as UInt32] in
            let store = try openShared(path + "/store", compactionFloorInBytes: 5000)
            let log = try SystemFileSystem().open(POSIXPath(path + "/acknowledged"), .writeOnly, options: [.create])
            Thread.detachNewThread {
                usleep(delay)
                kill(getpid(), SIGKILL)
            }
            for number in 1...10_000_000 {
                try store.set(KVKey<[String]>("key \(number % 50)"), value: [String](repeating: "\(number)", count: 5))
                try withUnsafeBytes(of: number) { try SystemFileSystem().writeFully(log, from: $0, at: 0) }
            }
        }
        // Whatever the killed process left, this one continues.
        try own.set(count, value: round)
        isOver.set()
        let last = try await writing.value
        let file = path + "/acknowledged"
        let bytes = SystemFileSystem().fileExists(atPath: file) ? try SystemFileSystem().readFile(POSIXPath(file)) : []
        let acknowledged = bytes.count == 8 ? bytes.withUnsafeBytes { $0.loadUnaligned(as: Int.self) } : 0
        func verify(_ store: FileKVStore) throws {
            for number in max(1, acknowledged - 49)..<(acknowledged + 1) {
                let value = try store.read(KVKey<[String]>("key \(number % 50)"))?.first
                // The next one may have been stored without being acknowledged.
                #expect(
                    value == "\(number)" || (number + 50 == acknowledged + 1 && value == "\(number + 50)"), "\(number)")
            }
            for number in max(1, last - 19)..<(last + 1) {
                #expect(try store.read(KVKey<[String]>("own \(number % 20)"))?.first == "\(number)")
            }
            #expect(store.get(count) == round)
            #expect(try store.damageReports().isEmpty)
        }
        try verify(own)
        await #expect(processExitsWith: .exitCode(7)) { [path = path as String, round = round as Int] in
            exit(try openShared(path + "/store").read(KVKey<Int>("count")) == round ? 7 : 8)
        }
    }
}
