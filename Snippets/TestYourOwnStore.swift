// A custom key-value store that passes the conformance checks.
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization

// snippet.draft
/// A first draft.
final class Draft: KVStoring {
    private let values = Mutex<[String: Data]>([:])

    func get<T>(_ key: KVKey<T>) -> T? {
        guard let data = values.withLock({ $0[key.name] }) else { return nil }
        return try? JSONDecoder().decode(T.self, from: data)
    }

    func set<T>(_ key: KVKey<T>, value: T) throws {
        let data = try JSONEncoder().encode(value)
        values.withLock { $0[key.name] = data }
    }

    func remove<T>(_ key: KVKey<T>) throws {
        values.withLock { $0[key.name] = nil }
    }

    func contains<T>(_ key: KVKey<T>) -> Bool {
        values.withLock { $0[key.name] != nil }
    }

    func removeAll() throws {
        values.withLock { $0 = [:] }
    }
}
// snippet.end

// snippet.run
let suite = ConformanceSuite.keyValueStore
print(await suite.run(on: "Draft", having: []) { Draft() })
// snippet.end

// snippet.store
/// A store that passes the checks.
final class Notebook: KVStoring {
    // By bytes: strings that Swift considers equal may be different names.
    private let values = Mutex<[[UInt8]: [UInt8]]>([:])

    private func bytes(_ name: String, _ operation: KVStoreError.Operation) throws(KVStoreError) -> [UInt8] {
        let bytes = Array(name.utf8)
        guard bytes.count <= 1024 else { throw KVStoreError(.invalidKey, operation, key: name) }
        return bytes
    }

    func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try read(key)
        } catch {
            return nil
        }
    }

    func set<T>(_ key: KVKey<T>, value: T) throws {
        let name = try bytes(key.name, .set)
        // Not under the lock: this runs the code of the value, which may read the store.
        let encoded = try key.encode(value)
        values.withLock { $0[name] = encoded }
    }

    func remove<T>(_ key: KVKey<T>) throws {
        let name = try bytes(key.name, .remove)
        values.withLock { $0[name] = nil }
    }

    func contains<T>(_ key: KVKey<T>) -> Bool {
        values.withLock { $0[Array(key.name.utf8)] != nil }
    }

    func removeAll() throws {
        values.withLock { $0 = [:] }
    }
}
// snippet.end

// snippet.read
extension Notebook: KVRawStoring {
    func read<T>(_ key: KVKey<T>) throws -> T? {
        let name = try bytes(key.name, .read)
        return try values.withLock { $0[name] }.map { try key.decode($0) }
    }

    func keys() throws -> [String] {
        values.withLock { $0.keys.map { String(decoding: $0, as: UTF8.self) } }
    }

    func rawValue(named name: String) throws -> [UInt8]? {
        let name = try bytes(name, .read)
        return values.withLock { $0[name] }
    }

    func setRawValue(_ value: [UInt8], named name: String) throws {
        let name = try bytes(name, .set)
        values.withLock { $0[name] = value }
    }

    func removeValue(named name: String) throws {
        let name = try bytes(name, .remove)
        values.withLock { $0[name] = nil }
    }
}
// snippet.end

// snippet.report
let report = await ConformanceSuite.rawKeyValueStore.run(on: "Notebook") { Notebook() }
print(report)
if !report.holds { exit(1) }
// snippet.end
