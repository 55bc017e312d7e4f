import ForgeFileStore
package import ForgeFileSystem
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
