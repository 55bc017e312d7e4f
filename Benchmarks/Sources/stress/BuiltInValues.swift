import ForgeKVStore
import Foundation

/// Values of every type that stores keep without an object, written, compacted and read in a release build: a
/// conversion that the compiler took apart would be wrong there only.
struct BuiltInValues {
    let directory: URL

    /// Checks all stores; returns whether every value was right.
    func run() throws -> Bool {
        defer { remove() }
        var wrong: [String] = []
        for kind in StoreKind.allCases {
            let place = directory.appendingPathComponent(kind.rawValue)
            // A closed store is opened twice: its values come from a log that was written by sets, and from one that a
            // compaction has written. In memory each store is new.
            for round in 0..<3 {
                let store = try kind.open(place)
                if round == 0 || !kind.isOnDisk { try forEach { try $0.set(in: store, 1) } }
                forEach { wrong += $0.problems(in: store, 1, "\(kind), opening \(round)") }
                try (store as? FileKVStore)?.compact()
                forEach { wrong += $0.problems(in: store, 1, "\(kind), compacted") }
                try forEach { try $0.set(in: store, 0) }
                forEach { wrong += $0.problems(in: store, 0, "\(kind), overwritten") }
                try (store as? FileKVStore)?.compact()
                try forEach { try $0.set(in: store, 1) }
                if round == 1 { try (store as? FileKVStore)?.compact() }
                try (store as? FileKVStore)?.close()
            }
        }
        for line in wrong.prefix(20) { print("values: \(line)") }
        print("values: \(Self.all.count) types, \(wrong.count) wrong values")
        return wrong.isEmpty
    }

    private func forEach(_ body: (any Checked) throws -> Void) rethrows { for type in Self.all { try body(type) } }

    private static let all: [any Checked] = [
        Values<Int>([.min, -1, 0, 1, 41_003, .max]), Values<Int64>([.min, -1, 0, .max]),
        Values<Int32>([.min, -1, 0, .max]), Values<Int16>([.min, -1, 0, .max]), Values<Int8>([.min, -1, 0, .max]),
        Values<UInt>([.min, 1, .max]), Values<UInt64>([.min, 1, .max]), Values<UInt32>([.min, 1, .max]),
        Values<UInt16>([.min, 1, .max]), Values<UInt8>([.min, 1, .max]), Values<Bool>([true, false]),
        Values<Double>([-.infinity, -0.1, 0, .leastNonzeroMagnitude, .greatestFiniteMagnitude]),
        Values<Float>([-.infinity, -0.1, 0, .leastNonzeroMagnitude, .greatestFiniteMagnitude]),
        Values<String>(["", "15 bytes of it.", "16 bytes of text", "ä", String(repeating: "long ", count: 300)]),
    ]

    private func remove() {
        do {
            try FileManager.default.removeItem(at: directory)
        } catch {
            print("\(directory.path) is left: \(error)")
        }
    }
}

private protocol Checked: Sendable {
    /// Stores each value under the key of another one, `shift` places further.
    func set(in store: any KVStoring, _ shift: Int) throws

    func problems(in store: any KVStoring, _ shift: Int, _ place: String) -> [String]
}

private struct Values<Value: Codable & Equatable & Sendable>: Checked {
    private let pairs: [(key: KVKey<Value>, value: Value)]

    init(_ values: [Value]) {
        pairs = values.enumerated().map { (KVKey("\(Value.self).\($0)"), $1) }
    }

    private func value(_ index: Int, _ shift: Int) -> Value { pairs[(index + shift) % pairs.count].value }

    func set(in store: any KVStoring, _ shift: Int) throws {
        for index in pairs.indices { try store.set(pairs[index].key, value: value(index, shift)) }
    }

    func problems(in store: any KVStoring, _ shift: Int, _ place: String) -> [String] {
        pairs.indices.compactMap { index in
            let found = store.get(pairs[index].key)
            guard found != value(index, shift) else { return nil }
            return "\(place): \(pairs[index].key.name) is \(String(describing: found)), not \(value(index, shift))"
        }
    }
}
