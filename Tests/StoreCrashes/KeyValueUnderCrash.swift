import ForgeCrypt
package import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Logging
import Synchronization

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

/// Two processes that share a ``FileKVStore`` and make their calls in turn.
package struct SharedKeyValueUnderCrash: StoreUnderCrash {
    package static let vocabulary = KeyValueUnderCrash.vocabulary
    package static let removesAllAtOnce = true

    private let processes: Processes

    private final class Processes: Sendable {
        let stores: [KeyValueUnderCrash]
        private let turn = Atomic(0)

        init(_ stores: [KeyValueUnderCrash]) {
            self.stores = stores
        }

        var next: KeyValueUnderCrash { stores[turn.wrappingAdd(1, ordering: .relaxed).oldValue % stores.count] }
    }

    package init(on fileSystem: InMemoryFileSystem) throws {
        // The first store treats every process in the page as dead, the second as alive.
        let stores = try [fileSystem, fileSystem.process()].enumerated().map { index, process in
            try KeyValueUnderCrash(on: process) { options in
                options.sharing = .shared
                options.processes = ProcessTable(own: ProcessIdentity(id: Int32(index + 1))) { _ in index == 1 }
            }
        }
        processes = Processes(stores)
    }

    package static func isDurable(_ call: StoreCall) -> Bool { KeyValueUnderCrash.isDurable(call) }

    package func perform(_ call: StoreCall) throws { try processes.next.perform(call) }

    package func contents() throws -> [String: StoreValue] {
        let contents = try processes.stores.map { try $0.contents() }
        guard contents.allSatisfy({ $0 == contents[0] }) else {
            throw ConformanceViolation("two processes see different values: \(contents)")
        }
        return contents[0]
    }

    package func requireUndamaged() throws {
        for store in processes.stores { try store.requireUndamaged() }
    }
}

/// A ``VaultCrypt`` with its key file in another directory; both, and their parent directories, are created on first
/// use.
package struct SecretsUnderCrash: StoreUnderCrash {
    package static let vocabulary = StoreVocabulary(names: ["a", "b", "c"], others: [.removeAll, .reopen])
    package static let removesAllAtOnce = true

    private let vault: VaultCrypt

    package init(on fileSystem: InMemoryFileSystem) throws {
        let key = try VaultKeyFile.loadOrCreate(at: URL(filePath: "/keys/key"), fileSystem: fileSystem)
        vault = try VaultCrypt(at: URL(filePath: "/app/secrets/vault"), key: key, fileSystem: fileSystem)
    }

    package static func isDurable(_ call: StoreCall) -> Bool { true }

    package func perform(_ call: StoreCall) throws {
        switch call {
        case .set(let name, let value): try vault.set(value.text, for: CryptKey(key: name))
        case .create(let name, let value):
            let key = CryptKey<String>(key: name)
            if try !vault.contains(key) { try vault.set(value.text, for: key) }
        case .remove(let name): try vault.delete(CryptKey<String>(key: name))
        case .removeTree(let name):
            for key in try vault.keys() where key.hasPrefix(name + "/") { try vault.delete(CryptKey<String>(key: key)) }
        case .removeAll: try vault.deleteAll()
        case .batch(let changes): for change in changes { try perform(change.call) }
        case .synchronize, .compact, .reopen, .recovered: break
        }
    }

    package func contents() throws -> [String: StoreValue] {
        var found: [String: StoreValue] = [:]
        for name in try vault.keys() {
            found[name] = try vault.get(CryptKey<String>(key: name)).map { try StoreValue($0.utf8, named: name) }
        }
        return found
    }
}
