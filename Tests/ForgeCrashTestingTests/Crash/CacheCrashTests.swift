import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import StoreCrashes
import TestDepth
import Testing

@Suite("A bounded cache under crashes")
struct CacheCrashTests {
    @Test("that makes its entries durable loses none that was inserted, and never mixes")
    func durable() async throws {
        let calls: [StoreCall] = [
            .set("a", "1"), .set("a", "2", count: 5000), .remove("a"), .set("b", "3"), .removeAll,
        ]
        let report = try await forEachCrash(
            of: calls, in: CacheUnderCrash.self, limit: TestDepth.limit(25, deep: 5000),
            depth: TestDepth.limit(1, deep: 2))
        #expect(report.stateCount > 20)
    }

    @Test("that flushes nothing and evicts has no torn or foreign values, and keeps its limits afterwards")
    func evicting() async throws {
        let letters = Array("abcdef")
        func open(_ fileSystem: InMemoryFileSystem) throws -> BoundedCache<Data> {
            var options = CacheOptions()
            options.disk = CacheLimits(count: 2)
            return try BoundedCache(
                directory: URL(filePath: "/caches/values"), options: options, fileSystem: fileSystem)
        }
        func value(_ letter: Character) -> Data { Data(StoreValue(letter, count: 700).bytes) }
        try await forEachCrash(of: letters, limit: TestDepth.limit(30, deep: 2000), depth: 1) { fileSystem in
            try open(fileSystem)
        } perform: { letter, cache in
            await cache.insert(value(letter), for: String(letter))
            if letter == "c" { try await cache.remove("c") }
        } recover: { fileSystem, crash in
            let cache = try open(fileSystem)
            for letter in letters {
                let found = try await cache.value(for: String(letter)) { _ in .absent(expiresAfter: .zero) }
                guard found == nil || found == value(letter) else {
                    throw ConformanceViolation("\(letter) has \(found?.count ?? 0) other bytes")
                }
            }
            await cache.insert(value("g"), for: "g")
            let size = try await cache.sizeOnDisk()
            guard size <= 2 * 741, try await cache.value(for: "g", load: { Data() }) == value("g") else {
                throw ConformanceViolation("\(size) bytes after an insertion")
            }
        }
    }
}
