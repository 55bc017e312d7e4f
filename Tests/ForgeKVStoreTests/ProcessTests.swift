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

/// Behaviour that requires a second process.
@Suite struct ProcessTests {
    @Test(
        "all writes acknowledged before a kill -9 persist, and nothing is torn",
        arguments: 0..<TestDepth.limit(1, deep: 10))
    func killed(_ round: Int) async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        var acknowledged = 0
        for attempt in 0..<2 {
            let base = acknowledged
            let delay = UInt32((round * 7 + attempt * 31) % 60) * 700
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = path as String, base = base as Int, delay = delay as UInt32] in
                let store = try FileKVStore(
                    at: URL(filePath: path + "/store"), options: .init(compactionFloorInBytes: 20_000))
                let log = try SystemFileSystem().open(
                    POSIXPath(path + "/acknowledged"), .writeOnly, options: [.create])
                Thread.detachNewThread {
                    usleep(delay)
                    kill(getpid(), SIGKILL)
                }
                for number in (base + 1)...(base + 10_000_000) {
                    let value = [String](repeating: "value \(number)", count: 5)
                    try store.set(KVKey<[String]>("key \(number % 50)"), value: value)
                    try withUnsafeBytes(of: number) { bytes in
                        try SystemFileSystem().writeFully(log, from: bytes, at: 0)
                    }
                }
            }
            let counterPath = path + "/acknowledged"
            let counter =
                SystemFileSystem().fileExists(atPath: counterPath)
                ? try SystemFileSystem().readFile(POSIXPath(counterPath)) : []
            if counter.count == 8 {
                acknowledged = counter.withUnsafeBytes { $0.loadUnaligned(as: Int.self) }
            }
            let recorder = IssueRecorder()
            let store = try FileKVStore(at: directory.url.appending(path: "store"), options: recorder.options())
            for number in max(1, acknowledged - 49)..<(acknowledged + 1) {
                let value = try store.read(KVKey<[String]>("key \(number % 50)"))
                let expected = [String](repeating: "value \(number)", count: 5)
                // The next one may have been stored without being acknowledged.
                let next = [String](repeating: "value \(number + 50)", count: 5)
                #expect(value == expected || (number + 50 == acknowledged + 1 && value == next), "\(number)")
            }
            #expect(recorder.damage.isEmpty)
        }
    }

    @Test("another process cannot open the store, and the error names the owner")
    func inUse() async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        let store = try FileKVStore(at: directory.url)
        try store.set(KVKey<Int>("a"), value: 1)
        let own = ProcessInfo.processInfo.processIdentifier
        await #expect(processExitsWith: .exitCode(7)) {
            [path = path as String, own = own as Int32] in
            do {
                _ = try FileKVStore(at: URL(filePath: path))
            } catch let error as KVStoreError {
                exit(error.code == .unavailable(.inUse(processID: own)) ? 7 : 8)
            }
        }
    }

    @Test("user defaults set in one process are read in the next")
    func userDefaults() async throws {
        let suite = TemporarySuite()
        let name = suite.name
        await #expect(processExitsWith: .success) { [name = name as String] in
            let store = UserDefaultsKVStore(suiteName: name)
            try store.set(KVKey<Int>("int"), value: 5)
            try store.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 0.25))
            try store.set(KVKey<Int?>("nil"), value: nil)
            try store.set(KVKey<String>("é"), value: "\u{FEFF}\u{1}")
            try store.set(KVKey<Bool>("gone"), value: true)
            try store.remove(KVKey<Bool>("gone"))
        }
        await #expect(processExitsWith: .exitCode(7)) { [name = name as String] in
            let store = UserDefaultsKVStore(suiteName: name)
            let isRight =
                store.get(KVKey<Int>("int")) == 5
                && store.get(KVKey<Date>("date")) == Date(timeIntervalSince1970: 0.25)
                && store.get(KVKey<Int?>("nil")) == .some(.none)
                && store.get(KVKey<String>("é")).map { Array($0.utf8) } == Array("\u{FEFF}\u{1}".utf8)
                && !store.contains(KVKey<Bool>("gone"))
            try store.removeAll()
            try store.set(KVKey<Int>("last"), value: 1)
            exit(isRight ? 7 : 8)
        }
        #expect(try UserDefaultsKVStore(suiteName: name).keys() == ["last"])
    }
}
