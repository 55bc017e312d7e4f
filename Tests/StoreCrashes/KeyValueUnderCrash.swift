package import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Logging

/// A ``FileKVStore`` that compacts its log often.
package struct KeyValueUnderCrash: StoreUnderCrash {
    package static let vocabulary = StoreVocabulary(
        names: ["a", "b", "c"], batches: true,
        others: [.synchronize, .synchronize, .synchronize, .compact, .reopen, .removeAll])
    package static let removesAllAtOnce = true

    private let store: FileKVStore

    package init(on fileSystem: InMemoryFileSystem) throws {
        try self.init(on: fileSystem) { _ in }
    }

    init(on fileSystem: InMemoryFileSystem, _ configure: (inout FileKVStore.Options) -> Void) throws {
        var options = FileKVStore.Options(
            compactionFloorInBytes: 1000,
            logger: Logger(label: "ForgeStorageTesting", factory: { _ in SwiftLogNoOpLogHandler() }))
        options.compactsInBackground = false
        options.reserveLittle()
        configure(&options)
        store = try FileKVStore(at: "/kv", fileSystem: fileSystem, options: options)
    }

    package static func isDurable(_ call: StoreCall) -> Bool {
        call == .synchronize || call == .compact || call == .reopen
    }

    package func perform(_ call: StoreCall) throws {
        switch call {
        case .set(let name, let value): try store.set(KVKey(name), value: value.text)
        case .create(let name, let value):
            let key = KVKey<String>(name)
            if try store.read(key) == nil { try store.set(key, value: value.text) }
        case .remove(let name): try store.remove(KVKey<String>(name))
        case .removeTree(let name):
            for key in try store.keys() where key.hasPrefix(name + "/") { try store.remove(KVKey<String>(key)) }
        case .removeAll: try store.removeAll()
        case .batch(let changes):
            try store.batch { batch in
                for change in changes {
                    if let value = change.value {
                        try batch.set(KVKey(change.name), value: value.text)
                    } else {
                        batch.remove(KVKey<String>(change.name))
                    }
                }
            }
        case .synchronize: try store.synchronize()
        case .compact: try store.compact()
        case .reopen, .recovered: break
        }
    }

    package func contents() throws -> [String: StoreValue] {
        var found: [String: StoreValue] = [:]
        // By name first, so that each lookup is independent.
        for name in try Self.vocabulary.names + store.keys() {
            found[name] = try store.read(KVKey<String>(name)).map { try StoreValue($0.utf8, named: name) }
        }
        return found
    }

    /// Complete records after a torn one may be set aside, but nothing may be reported as damage.
    package func requireUndamaged() throws {
        let damage = try store.damageReports().filter { $0.kind != .tail }
        guard damage.isEmpty else { throw ConformanceViolation("takes a crash for damage: \(damage)") }
    }
}
