import ForgeFileSystem
import ForgeStorage
import Foundation
import Synchronization
import Testing

@testable import ForgeCommands

/// A store as on servers: it takes small batches, and its pages are those that are asked for.
private final class PagedStore: AsyncKVStoring {
    private let base = LocalAsyncKVStore(InMemoryKVStore())
    let longestPage = Mutex(0)
    /// The number of requests for values that run now, and the most that ever did.
    let lookUps = Mutex((now: 0, most: 0))
    /// From how many values on a page fails.
    let limit: Int
    private let failure: KVStoreError.Code

    init(limit: Int = .max, failure: KVStoreError.Code = .unavailable(.server)) {
        (self.limit, self.failure) = (limit, failure)
    }

    func capabilities() async -> AsyncKVCapabilities {
        var capabilities = await base.capabilities()
        capabilities.maximumBatchSize = 128
        return capabilities
    }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        lookUps.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        defer { lookUps.withLock { $0.now -= 1 } }
        // Requests take a while, so that all which may run at the same time do.
        for _ in 0..<1000 { await Task.yield() }
        return try await base.entry(named: name)
    }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        guard limit < self.limit else { throw KVStoreError(failure, .keys) }
        longestPage.withLock { $0 = max($0, limit) }
        return try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        guard batch.changes.count <= 128 else { throw KVStoreError(.tooLarge, .batch) }
        return try await base.commit(batch, timeToLive: timeToLive)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}

@Suite("A key-value store that a verb has opened")
struct OpenedKVStoreTests {
    private func names(_ store: OpenedKVStore) async throws -> [String] {
        var names: [String] = []
        try await store.forEach { name, _ in names.append(name) }
        return names
    }

    private func fill(_ store: PagedStore, count: Int, size: Int = 1) async throws -> [String] {
        for number in 0..<count {
            var batch = KVBatch()
            batch.append(.set(name: String(10_000 + number), bytes: [UInt8](repeating: 1, count: size)))
            _ = try await store.commit(batch, timeToLive: nil)
        }
        return (0..<count).map { String(10_000 + $0) }
    }

    @Test("all values of a store on servers come in pages, each once, in the order of their bytes")
    func pages() async throws {
        let store = PagedStore()
        let expected = try await fill(store, count: 1500)
        #expect(try await names(OpenedKVStore(store)) == expected)
        #expect(try await OpenedKVStore(store).names() == expected)
        #expect(store.longestPage.withLock { $0 } == 1024)
    }

    @Test("pages are short while values are large")
    func largeValues() async throws {
        let store = PagedStore()
        let expected = try await fill(store, count: 40, size: 1 << 18)
        #expect(try await names(OpenedKVStore(store)) == expected)
        #expect(store.longestPage.withLock { $0 } == 16)
    }

    @Test(
        "a page that fails is asked for again with fewer values, and then the error is thrown",
        arguments: [KVStoreError.Code.unavailable(.server), .tooLarge, .timeout])
    func failingPages(_ failure: KVStoreError.Code) async throws {
        let store = PagedStore(limit: 100, failure: failure)
        let expected = try await fill(store, count: 200)
        #expect(try await names(OpenedKVStore(store)) == expected)
        let broken = OpenedKVStore(PagedStore(limit: 1, failure: failure))
        await #expect(throws: KVStoreError.self) { try await names(broken) }
    }

    @Test("up to 16 values are read at the same time, in the order of their names")
    func lookUps() async throws {
        let store = PagedStore()
        let names = try await fill(store, count: 50)
        let found = try await OpenedKVStore(store).entries(named: names.reversed() + ["none"])
        #expect(found.count == 51 && found.last == .some(nil))
        #expect(store.lookUps.withLock { $0.most } == 16)
        let expected = try await store.entry(named: names[0])
        #expect(found[49]?.revision == expected?.revision)
    }

    @Test("a local store throws its own errors, also over the asynchronous protocol")
    func localErrors() async throws {
        let scratch = try Scratch()
        try FileKVStore(at: scratch.url.appendingPathComponent("kv")).close()
        let store = OpenedKVStore(
            try FileKVStore(
                at: scratch.url.appendingPathComponent("kv"), options: FileKVStore.Options(access: .readOnly)))
        var batch = KVBatch()
        batch.append(.set(name: "a", bytes: [1]))
        let error = await #expect(throws: KVStoreError.self) { try await store.commit(batch) }
        #expect(error?.code == .readOnly)
    }

    @Test("a batch refuses an item when it is full, or has its key")
    func batches() {
        var batch = KeyValueBatch(limit: 2)
        #expect(!batch.refuses("a", [UInt8](repeating: 0, count: 2 << 20)))
        batch.append("e\u{301}", [1])
        #expect(batch.refuses("e\u{301}", [2]))
        #expect(!batch.refuses("\u{E9}", [2]))
        // With its names, a batch has up to a mebibyte: 4 bytes are in it.
        #expect(!batch.refuses("b", [UInt8](repeating: 0, count: (1 << 20) - 5)))
        #expect(batch.refuses("b", [UInt8](repeating: 0, count: (1 << 20) - 4)))
        batch.append("\u{E9}", [2])
        #expect(batch.refuses("c", []))
        batch.removeAll()
        #expect(!batch.refuses("c", []))
        batch.append("c", [])
        #expect(!batch.refuses("\u{E9}", [UInt8](repeating: 0, count: (1 << 20) - 3)))
    }
}
