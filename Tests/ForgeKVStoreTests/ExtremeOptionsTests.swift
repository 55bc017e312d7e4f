import ForgeCoding
import ForgeFileSystem
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Options at the limits of their ranges") struct ExtremeOptionsTests {
    @Test("an unreachable compaction floor does not trap")
    func unreachableFloor() async {
        await #expect(processExitsWith: .success) {
            let store = try FileKVStore(
                at: "/store", fileSystem: InMemoryFileSystem(), options: .init(compactionFloorInBytes: .max))
            for number in 0..<100 { try store.set(KVKey<Int>("a"), value: number) }
        }
    }

    @Test("a lock timeout may be as long as any duration")
    func endlessTimeout() async {
        await #expect(processExitsWith: .success) {
            let fileSystem = InMemoryFileSystem()
            let directory = try fileSystem.open("/", .readOnly, options: [.directory])
            for timeout in [Duration(_high: .max, low: .max), Duration(_high: .min, low: 0)] {
                _ = try StoreLock(.exclusive, waitingAtMost: timeout, at: directory, on: fileSystem)
            }
        }
    }

    @Test(
        "a value above 256 MiB within the limit can be read back",
        .enabled(if: TestDepth.isDeep, "512 MiB of memory: only in deep runs"))
    func largeValue() throws {
        let directory = TemporaryDirectory()
        let key = KVKey<Data>("large")
        let value = Data(repeating: 7, count: (256 << 20) + 100)
        let options = FileKVStore.Options(maximumValueSizeInBytes: 512 << 20)
        do {
            let store = try FileKVStore(at: directory.url, options: options)
            try store.set(key, value: value)
            #expect(try store.read(key) == value)
        }
        // The limit of the reading process may be lower.
        let store = try FileKVStore(at: directory.url)
        #expect(try store.read(key) == value)
    }

    @Test("all writes obey the limit with which the store was opened, whichever object makes them")
    func oneLimit() throws {
        let fileSystem = InMemoryFileSystem()
        for (first, second) in [(10, 1_000), (1_000, 10)] {
            let path = POSIXPath("/\(first)")
            let owner = try FileKVStore(
                at: path, fileSystem: fileSystem, options: .init(maximumValueSizeInBytes: first))
            let other = try FileKVStore(
                at: path, fileSystem: fileSystem, options: .init(maximumValueSizeInBytes: second))
            let key = KVKey<[UInt8]>("a")
            let value = [UInt8](repeating: 7, count: 100)
            let bytes = try ValueTable.encode(value, for: key)
            let changes: [(FileKVStore) throws -> Void] = [
                { try $0.set(key, value: value) }, { try $0.setRawValue(bytes, named: "a") },
                { try $0.batch { try $0.set(key, value: value) } },
            ]
            for store in [owner, other] {
                for change in changes {
                    #expect(code { try change(store) } == (first == 10 ? .valueTooLarge : nil))
                }
            }
        }
    }

    #if os(Linux)
    @Test("a long text that was replaced takes no memory", arguments: FileKVStore.Sharing.allCases)
    func memory(_ sharing: FileKVStore.Sharing) async {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        await #expect(processExitsWith: .success) {
            [path = path as String, isShared = (sharing == .shared) as Bool] in
            func anonymousMemory() throws -> Int {
                let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
                let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
                return try #require(Int(line.split(separator: " ").dropLast().last ?? "")) << 10
            }
            let key = KVKey<String>("a")
            let store = try FileKVStore(
                at: URL(filePath: path), options: .init(sharing: isShared ? .shared : .exclusive))
            try store.set(key, value: "short")
            let before = try anonymousMemory()
            let count = TestDepth.limit(16 << 20, deep: 64 << 20)
            try store.set(key, value: String(repeating: "x", count: count))
            #expect(store.get(key)?.utf8.count == count)
            // Enough for the old value to be reclaimed.
            for number in 0..<2_000 { try store.set(key, value: "short \(number)") }
            let growth = try anonymousMemory() - before
            #expect(growth < count / 2, "\(growth)")
        }
    }
    #endif

    @Test("a value within the limit can be encoded and decoded")
    func coderLimit() {
        let options = FileKVStore.Options(maximumValueSizeInBytes: .max)
        #expect(ValueTable.coder.maximumSize >= options.valueLimit)
    }
}
