package import ForgeFileSystem
import ForgeStorage
import Foundation

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
