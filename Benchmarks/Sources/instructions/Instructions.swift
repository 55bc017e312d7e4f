import CMeasuring
import ForgeKVStore
import Foundation

/// Runs each kind of call a fixed number of times, each kind between two calls of `measuring_mark`.
///
/// `Scripts/check-instructions.sh` runs this under callgrind, which starts a new count at each mark, and divides each
/// count by the number of calls. The name and the number of calls of each kind are printed in order.
@main
enum Instructions {
    static func main() throws {
        guard CommandLine.arguments.count == 2 else {
            FileHandle.standardError.write(Data("usage: instructions DIRECTORY\n".utf8))
            exit(2)
        }
        let directory = URL(fileURLWithPath: CommandLine.arguments[1], isDirectory: true)
        var options = FileKVStore.Options()
        // A compaction during the count would be the only one, and charged to one kind of call.
        options.compactionFloorInBytes = 1 << 30
        try measure("FileKVStore Int", Int.self) {
            try FileKVStore(at: directory.appending(path: "int"), options: options)
        }
        try measure("FileKVStore String", String.self) {
            try FileKVStore(at: directory.appending(path: "string"), options: options)
        }
        try measure("FileKVStore struct", Profile.self) {
            try FileKVStore(at: directory.appending(path: "struct"), options: options)
        }
        try measureSettings("Setting String", at: directory.appending(path: "settings"), options: options)
        try measure("InMemoryKVStore Int", Int.self) { InMemoryKVStore() }
        try measure("InMemoryKVStore String", String.self) { InMemoryKVStore() }
        try measure("InMemoryKVStore struct", Profile.self) { InMemoryKVStore() }
    }

    /// `store` is a concrete type, as in an app that creates its store itself, so the calls are those of an app.
    private static func measure<Value: Sample, Store: KVStoring>(
        _ title: String, _: Value.Type, makeStore: () throws -> Store
    ) throws {
        let store = try makeStore()
        let keys = (0..<1_000).map { KVKey<Value>("settings.profile.\($0)") }
        let absent = (0..<10_000).map { KVKey<Value>("settings.missing.\($0)") }
        let values = (0..<1_000).map { Value(sample: $0) }
        let others = (0..<1_000).map { Value(sample: $0 + 1_000) }
        func set(_ values: [Value]) throws {
            for index in keys.indices { try store.set(keys[index], value: values[index]) }
        }
        func get(_ keys: [KVKey<Value>]) {
            for key in keys {
                let value = store.get(key)
                withUnsafePointer(to: value) { measuring_keep($0) }
            }
        }
        try set(values)
        try set(others)
        get(keys)
        get(absent)
        // Passes over all keys. Values alternate, since a store may ignore a value that it holds already.
        count("\(title) get hit", calls: 10 * keys.count) { for _ in 0..<10 { get(keys) } }
        count("\(title) get miss", calls: absent.count) { get(absent) }
        try count("\(title) set overwrite", calls: 10 * keys.count) {
            for pass in 0..<10 { try set(pass.isMultiple(of: 2) ? values : others) }
        }
        let isRight = keys.indices.allSatisfy { store.get(keys[$0]) == others[$0] }
        guard isRight, absent.allSatisfy({ store.get($0) == nil }) else { throw WrongValue(title: title) }
    }

    /// Reads through settings of a store, and through settings that name none.
    private static func measureSettings(_ title: String, at directory: URL, options: FileKVStore.Options) throws {
        let store = try FileKVStore(at: directory, options: options)
        try DefaultSettingsStore.open { store }
        let settings = (0..<1_000).map { KVSetting("settings.profile.\($0)", default: "") }
        for (index, setting) in settings.enumerated() { try store.set(setting, value: String(sample: index)) }
        let inStore = settings.map { Setting($0, in: store) }
        let homeless = settings.map { Setting($0) }
        func read(_ properties: [Setting<String>]) {
            for property in properties {
                let value = property.wrappedValue
                withUnsafePointer(to: value) { measuring_keep($0) }
            }
        }
        read(inStore)
        read(homeless)
        count("\(title) get", calls: 10 * settings.count) { for _ in 0..<10 { read(inStore) } }
        count("\(title) get without a store", calls: 10 * settings.count) { for _ in 0..<10 { read(homeless) } }
        let isRight = settings.indices.allSatisfy { homeless[$0].wrappedValue == String(sample: $0) }
        guard isRight else { throw WrongValue(title: title) }
    }

    private struct WrongValue: Error {
        let title: String
    }

    private static func count(_ title: String, calls: Int, _ body: () throws -> Void) rethrows {
        print("\(title)\t\(calls)")
        measuring_mark()
        try body()
        measuring_mark()
    }
}
