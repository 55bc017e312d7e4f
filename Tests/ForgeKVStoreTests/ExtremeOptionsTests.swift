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

    @Test("a value above 256 MiB within the limit can be read back", .enabled(if: TestDepth.isDeep))
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

    @Test("a value within the limit can be encoded and decoded")
    func coderLimit() {
        let options = FileKVStore.Options(maximumValueSizeInBytes: .max)
        #expect(ValueTable.coder.maximumSize >= options.valueLimit)
    }
}
