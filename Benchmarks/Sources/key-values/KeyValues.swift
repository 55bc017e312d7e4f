import ForgeKVStore
import Foundation
import Measuring

/// Key-value stores beside one another.
@main
enum KeyValues {
    struct Settings: Codable, Sendable, Equatable {
        var name: String
        var count: Int
        var ratio: Double
        var isOn: Bool
        var tags: [String]
    }

    static func settings(_ number: Int) -> Settings {
        Settings(
            name: "user-\(number)", count: number, ratio: Double(number) / 3, isOn: number % 2 == 0, tags: ["a", "b"])
    }

    static func text(_ number: Int) -> String {
        let digits = String(number)
        return String(repeating: "x", count: 32 - digits.count) + digits
    }

    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        let directory = URL(fileURLWithPath: arguments.first ?? ".build/key-values", isDirectory: true)
        defer { do { try FileManager.default.removeItem(at: directory) } catch _ {} }
        for count in [1_000, 100_000] {
            let place = directory.appendingPathComponent("forge-\(count)")
            let store = try FileKVStore(at: place)
            try reads(count, store)
            if count == 1_000 { try writes(count, store, directory) }
        }
    }

    static func reads(_ count: Int, _ store: FileKVStore) throws {
        let dictionary = DictionaryStore()
        let order = (0..<count).shuffled()
        let ints = order.map { KVKey<Int>("settings.int.\($0)") }
        let texts = order.map { KVKey<String>("settings.text.\($0)") }
        let structs = order.map { KVKey<Settings>("settings.struct.\($0)") }
        for (place, number) in order.enumerated() {
            try store.set(ints[place], value: number)
            try store.set(texts[place], value: text(number))
            try store.set(structs[place], value: settings(number))
            dictionary.set(ints[place].name, number)
            dictionary.set(texts[place].name, text(number))
            dictionary.set(structs[place].name, settings(number))
        }
        let rounds = max(1, 100_000 / count)
        let calls = count * rounds
        print(
            MeasurementTable(
                "\nget, \(count) keys: Int",
                [
                    Measurement("dictionary", count: calls) {
                        for _ in 0..<rounds { for key in ints { keep(dictionary.get(key.name, as: Int.self)) } }
                    },
                    Measurement("FileKVStore", count: calls) {
                        for _ in 0..<rounds { for key in ints { keep(store.get(key)) } }
                    },
                ]))
        print(
            MeasurementTable(
                "\nget, \(count) keys: String of 32 characters",
                [
                    Measurement("dictionary", count: calls) {
                        for _ in 0..<rounds { for key in texts { keep(dictionary.get(key.name, as: String.self)) } }
                    },
                    Measurement("FileKVStore", count: calls) {
                        for _ in 0..<rounds { for key in texts { keep(store.get(key)) } }
                    },
                ]))
        print(
            MeasurementTable(
                "\nget, \(count) keys: struct of five fields",
                [
                    Measurement("dictionary", count: calls) {
                        for _ in 0..<rounds { for key in structs { keep(dictionary.get(key.name, as: Settings.self)) } }
                    },
                    Measurement("FileKVStore", count: calls) {
                        for _ in 0..<rounds { for key in structs { keep(store.get(key)) } }
                    },
                ]))
    }

    static func writes(_ count: Int, _ store: FileKVStore, _ directory: URL) throws {
        let ints = (0..<count).map { KVKey<Int>("settings.int.\($0)") }
        let texts = (0..<count).map { KVKey<String>("settings.text.\($0)") }
        let structs = (0..<count).map { KVKey<Settings>("settings.struct.\($0)") }
        let words = (0..<count).map(text)
        let values = (0..<count).map(settings)
        let file = open(directory.appendingPathComponent("plain").path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        let rounds = 200
        let calls = rounds * count
        print(
            MeasurementTable(
                "\nset, \(count) keys",
                [
                    Measurement("write(2) of 64 bytes", count: calls) {
                        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 8) { buffer in
                            for _ in 0..<calls { keep(write(file, buffer.baseAddress, 64)) }
                        }
                        ftruncate(file, 0)
                        lseek(file, 0, SEEK_SET)
                    },
                    try Measurement("FileKVStore: Int", count: calls) {
                        for round in 0..<rounds { for key in ints { try store.set(key, value: round) } }
                    },
                    try Measurement("FileKVStore: String of 32 characters", count: calls) {
                        for _ in 0..<rounds {
                            for (index, key) in texts.enumerated() { try store.set(key, value: words[index]) }
                        }
                    },
                    try Measurement("FileKVStore: struct of five fields", count: calls) {
                        for _ in 0..<rounds {
                            for (index, key) in structs.enumerated() { try store.set(key, value: values[index]) }
                        }
                    },
                ]))
        close(file)
    }
}
