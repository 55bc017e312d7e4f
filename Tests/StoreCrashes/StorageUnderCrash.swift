package import ForgeFileSystem
import ForgeStorage
import Foundation

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
