import ForgeFileStore
package import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation

/// A ``DiskFileStore`` whose calls are all durable.
package struct FilesUnderCrash: StoreUnderCrash {
    package static let vocabulary = StoreVocabulary(
        names: ["a", "b", "x/y", "x/z", "x/w/v"], trees: ["x", "x/w"], creates: true, others: [.removeAll, .reopen])
    package static let removesAllAtOnce = false
    package static let removesDirectoriesAtOnce = true

    private let store: DiskFileStore

    package init(on fileSystem: InMemoryFileSystem) {
        self.init(on: fileSystem, durability: .full)
    }

    package init(on fileSystem: InMemoryFileSystem, durability: Durability) {
        store = DiskFileStore(
            root: URL(filePath: "/files"), fileSystem: fileSystem, options: FileStoreOptions(durability: durability))
    }

    package static func isDurable(_ call: StoreCall) -> Bool { true }

    nonisolated(nonsending) package func perform(_ call: StoreCall) async throws {
        do {
            switch call {
            case .set(let name, let value): try await save(Data(value.bytes), to: name)
            case .create(let name, let value): try await create(Data(value.bytes), as: name)
            case .remove(let name): try await store.delete(name)
            case .removeTree(let name): try await store.deleteDirectory(name)
            case .removeAll: try await store.deleteAll()
            case .batch(let changes): for change in changes { try await perform(change.call) }
            case .synchronize, .compact, .reopen, .recovered: break
            }
        } catch let error as FileStoreError {
            switch (call, error.code) {
            case (.create, .alreadyExists), (.remove, .notFound), (.removeTree, .notFound): break
            default: throw error
            }
        }
    }

    /// Saves in every way that a store offers; the size selects the way, so that a program always takes the same.
    nonisolated(nonsending) private func save(_ data: Data, to name: String) async throws {
        switch data.count {
        case 511: try await store.save(data, to: name, if: .always)
        case 700: try await store.update(name) { _ in data }
        case 40: try await store.save(data, to: name, attributes: attributes(of: data))
        case 1300:
            try await store.write(to: name, attributes: attributes(of: data)) { writer in
                try await writer.write(data.prefix(500))
                try await writer.write(data.dropFirst(500))
            }
        case 5000: try await store.batch { $0.save(data, to: name, attributes: attributes(of: data)) }
        default: try await store.save(data, to: name)
        }
    }

    nonisolated(nonsending) private func create(_ data: Data, as name: String) async throws {
        let attributes = attributes(of: data)
        guard !attributes.isEmpty else { return try await store.save(data, to: name, overwrite: false) }
        try await store.save(data, to: name, if: .absent, durability: nil, attributes: attributes)
    }

    /// The attributes that a content is always saved with.
    private func attributes(of data: Data) -> [String: String] {
        guard [40, 1300, 5000].contains(data.count) else { return [:] }
        return ["letter": String(decoding: data.prefix(1), as: UTF8.self), "count": "\(data.count)"]
    }

    nonisolated(nonsending) package func contents() async throws -> [String: StoreValue] {
        var found: [String: StoreValue] = [:]
        for file in try await store.list(recursive: true) where !file.isDirectory {
            let reader = try await store.reader(for: file.key)
            let data = try await reader.readAll()
            found[file.key] = try StoreValue(data, named: file.key)
            let actual = try await reader.attributes()
            guard actual == attributes(of: data) else {
                throw ConformanceViolation("\(file.key) of \(data.count) bytes has the attributes \(actual)")
            }
        }
        return found
    }
}

/// A ``DiskStorage``, which cannot list its content: the names are known.
package struct StorageUnderCrash: StoreUnderCrash {
    package static let vocabulary = StoreVocabulary(
        names: ["a", "b", "users/1", "users/2", "x/y/z"], others: [.removeAll, .reopen])
    package static let removesAllAtOnce = false

    private let storage: DiskStorage

    package init(on fileSystem: InMemoryFileSystem) {
        storage = DiskStorage(path: URL(filePath: "/storage"), fileSystem: fileSystem)
    }

    package static func isDurable(_ call: StoreCall) -> Bool { true }

    package func perform(_ call: StoreCall) throws {
        switch call {
        case .set(let name, let value): try storage.save(value: Data(value.bytes), for: name)
        case .create(let name, let value):
            if try self.value(of: name) == nil { try storage.save(value: Data(value.bytes), for: name) }
        case .remove(let name): try storage.removeValue(for: name)
        case .removeTree(let prefix):
            for name in Self.vocabulary.names where name.hasPrefix(prefix + "/") { try storage.removeValue(for: name) }
        case .removeAll: for name in Self.vocabulary.names { try storage.removeValue(for: name) }
        case .batch(let changes): for change in changes { try perform(change.call) }
        case .synchronize, .compact, .reopen, .recovered: break
        }
    }

    package func contents() throws -> [String: StoreValue] {
        var found: [String: StoreValue] = [:]
        for name in Self.vocabulary.names + ["probe"] { found[name] = try value(of: name) }
        return found
    }

    private func value(of name: String) throws -> StoreValue? {
        do {
            return try StoreValue(storage.fetchValue(for: name), named: name)
        } catch StorageError.notFound {
            return nil
        }
    }
}

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

/// An ``ImageCacheManager`` whose calls are all durable.
package struct ImagesUnderCrash: StoreUnderCrash {
    package static let vocabulary = StoreVocabulary(names: ["a", "b", "c"], others: [.removeAll, .reopen])
    package static let removesAllAtOnce = false

    private let cache: ImageCacheManager

    package init(on fileSystem: InMemoryFileSystem) {
        cache = ImageCacheManager(
            fileSystem: fileSystem, cacheDirectory: URL(filePath: "/caches/images"),
            now: { Date(timeIntervalSince1970: 0) })
    }

    package static func isDurable(_ call: StoreCall) -> Bool { true }

    package func perform(_ call: StoreCall) throws {
        switch call {
        case .set(let name, let value): try cache.cacheImage(id: name, data: Data(value.bytes))
        case .create(let name, let value):
            if try cache.readCachedImage(id: name) == nil { try cache.cacheImage(id: name, data: Data(value.bytes)) }
        case .remove(let name): try cache.deleteCachedImage(id: name)
        case .removeTree(let prefix):
            for name in Self.vocabulary.names where name.hasPrefix(prefix + "/") {
                try cache.deleteCachedImage(id: name)
            }
        case .removeAll: try cache.clearCache()
        case .batch(let changes): for change in changes { try perform(change.call) }
        case .synchronize, .compact, .reopen, .recovered: break
        }
    }

    package func contents() throws -> [String: StoreValue] {
        var found: [String: StoreValue] = [:]
        for name in Self.vocabulary.names + ["probe"] {
            found[name] = try cache.readCachedImage(id: name).map { try StoreValue($0.data, named: name) }
        }
        return found
    }
}
