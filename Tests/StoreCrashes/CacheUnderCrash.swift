package import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation

/// A ``BoundedCache`` without limits whose calls are all durable.
package struct CacheUnderCrash: StoreUnderCrash {
    package static let vocabulary = StoreVocabulary(names: ["a", "b", "c"], others: [.removeAll, .reopen])
    package static let removesAllAtOnce = false

    private struct NotFound: Error {}

    private let cache: BoundedCache<Data>

    package init(on fileSystem: InMemoryFileSystem) throws {
        var options = CacheOptions()
        options.disk = .unlimited
        options.durability = .full
        cache = try BoundedCache(directory: URL(filePath: "/caches/values"), options: options, fileSystem: fileSystem)
    }

    package static func isDurable(_ call: StoreCall) -> Bool { true }

    nonisolated(nonsending) package func perform(_ call: StoreCall) async throws {
        switch call {
        case .set(let name, let value): try await insert(value, as: name)
        case .create(let name, let value):
            if try await self.value(of: name) == nil { try await insert(value, as: name) }
        case .remove(let name): try await cache.remove(name)
        case .removeTree(let prefix):
            for name in Self.vocabulary.names where name.hasPrefix(prefix + "/") { try await cache.remove(name) }
        case .removeAll: try await cache.purge()
        case .batch(let changes): for change in changes { try await perform(change.call) }
        case .synchronize, .compact, .reopen, .recovered: break
        }
    }

    nonisolated(nonsending) package func contents() async throws -> [String: StoreValue] {
        var found: [String: StoreValue] = [:]
        for name in Self.vocabulary.names + ["probe"] { found[name] = try await value(of: name) }
        return found
    }

    nonisolated(nonsending) private func insert(_ value: StoreValue, as name: String) async throws {
        await cache.insert(Data(value.bytes), for: name)
        try requireUndamaged()
    }

    nonisolated(nonsending) private func value(of name: String) async throws -> StoreValue? {
        do {
            let value = try await cache.value(for: name) { _ in throw NotFound() }
            return try value.map { try StoreValue($0, named: name) }
        } catch is NotFound {
            return nil
        }
    }

    package func requireUndamaged() throws {
        let count = cache.statistics.errorCount
        guard count == 0 else { throw ConformanceViolation("\(count) errors were reported") }
    }
}
