import ArgumentParser
import ForgeStorage
import Foundation

/// Looks into a `FileKVStore` and changes it, without knowing the types of its values.
struct KVCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kv", abstract: "Read and change a key-value store.",
        subcommands: [Get.self, Set.self, List.self, Remove.self])

    struct Get: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Print the value of a key.")

        @OptionGroup var store: KVStoreArgument
        @Argument(help: "The key.") var key: String
        @Flag(help: "Print JSON, a string with its quotes.") var json = false

        func run() throws {
            guard let bytes = try store.open(mustExist: true).rawValue(named: key) else {
                throw CommandFailure("kv get \(key): there is no such key in \(store.path)")
            }
            let value = try storedValue(bytes)
            if case .string(let text) = value, !json { return print(text) }
            print(value.json(prettyPrinted: true))
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Store a value: JSON if it is JSON, otherwise a string.",
            discussion: "The value is on the device when the command ends.")

        @OptionGroup var store: KVStoreArgument
        @Argument(help: "The key.") var key: String
        @Argument(help: "The value, such as true, 42, '\"42\"', '{\"theme\":\"dusk\"}' or plain text.") var value:
            String
        @Flag(help: "Take the value for a string, whatever it looks like.") var string = false

        func run() throws {
            let coded = string ? CodedValue.string(value) : jsonOrText(value)
            let kv = try store.open(mustExist: false)
            try kv.setRawValue(envelope(of: coded), named: key)
            try kv.synchronize()
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List all keys and their values.")

        @OptionGroup var store: KVStoreArgument
        @Flag(help: "Print JSON.") var json = false

        func run() throws {
            let kv = try store.open(mustExist: true)
            var table = TextTable([("Key", .left), ("Bytes", .right), ("Value", .left)])
            var entries: [CodedValue.Entry] = []
            for key in try kv.keys().sorted() {
                guard let bytes = try kv.rawValue(named: key) else { continue }
                let value = try storedValue(bytes)
                entries.append(CodedValue.Entry(.string(key), value))
                table.add([key, String(bytes.count), String(value.json(prettyPrinted: false).prefix(80))])
            }
            guard !json else {
                return print(CodedValue.map(entries).json(prettyPrinted: true))
            }
            for line in table.lines { print(line) }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "rm", abstract: "Remove a key.")

        @OptionGroup var store: KVStoreArgument
        @Argument(help: "The key.") var key: String

        func run() throws {
            let kv = try store.open(mustExist: true)
            guard try kv.rawValue(named: key) != nil else {
                throw CommandFailure("kv rm \(key): there is no such key in \(store.path)")
            }
            try kv.removeValue(named: key)
            try kv.synchronize()
        }
    }
}

/// What the bytes of a value say, whatever its type.
func storedValue(_ bytes: [UInt8]) throws -> CodedValue {
    try CodedValue(decoding: ValueEnvelope(decoding: bytes))
}

/// The bytes that a store keeps for a value.
private func envelope(of value: CodedValue) throws -> [UInt8] {
    ValueEnvelope(schemaVersion: 1, payload: try value.encoded()).encoded
}

/// The value that a JSON text spells; any other text is a string.
private func jsonOrText(_ text: String) -> CodedValue {
    do {
        return try CodedValue(json: text)
    } catch {
        return .string(text)
    }
}

/// Where the store is.
struct KVStoreArgument: ParsableArguments {
    @Argument(help: "The directory of the store.") var path: String

    /// Opens the store; a store is made only by a command that has something to put into it.
    func open(mustExist: Bool) throws -> FileKVStore {
        let url = URL(fileURLWithPath: path)
        if mustExist { try requireExisting(url, "key-value store") }
        return try FileKVStore(at: url)
    }
}

/// Throws one clear line if there is nothing at `url`, so that a mistyped path does not make an empty store.
func requireExisting(_ url: URL, _ what: String) throws {
    let path = try POSIXPath(url)
    guard try SystemFileSystem().exists(path) else { throw CommandFailure("there is no \(what) at \(path)") }
}
