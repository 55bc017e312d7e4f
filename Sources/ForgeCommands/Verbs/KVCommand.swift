import ArgumentParser
import ForgeStorage
import Foundation

/// Reads and changes a key-value store without knowing the types of its values.
struct KVCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kv", abstract: "Read and change a key-value store.",
        subcommands: [Get.self, Set.self, List.self, Remove.self])

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print the value of a key.",
            discussion: """
                Text is printed with control characters other than line feeds and tabs as \\xNN; --json prints exactly \
                what is stored.
                """)

        @OptionGroup var store: KVStoreArgument
        @Argument(help: "The key.") var key: String
        @Flag(help: "Print JSON, a string with its quotes; errors too.") var json = false

        func run() async throws {
            try await store.withStore(.readOnly, printValue)
        }

        private func printValue(in kv: OpenedKVStore) async throws {
            guard let bytes = try await kv.entry(named: key)?.bytes else {
                throw CommandFailure("kv get \(key): there is no such key in \(store.path)", .notFound)
            }
            let value = try storedValue(bytes, of: key)
            if case .string(let text) = value, !json {
                return try StandardOutput.print(text, keeping: ["\n", "\t"])
            }
            let shown = try CommandFailure.naming("the value of \(key) has no JSON form") {
                try value.json(prettyPrinted: true)
            }
            try StandardOutput.print(json: shown)
        }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Store a value: JSON if it is JSON, otherwise a string.",
            discussion: """
                The value is durable when the command ends. A text that begins like JSON and is not valid, or that \
                exceeds a limit of the store, is refused unless --string is given. Write -- before a value that begins \
                with a hyphen.
                """)

        @OptionGroup var store: KVStoreArgument
        @Argument(help: "The key.") var key: String
        @Argument(help: "The value, such as true, 42, '\"42\"', '{\"theme\":\"dusk\"}' or plain text.") var value:
            String
        @Flag(help: "Store the value as a string, even if it is valid JSON.") var string = false
        @OptionGroup var output: JSONOption

        func run() async throws {
            try await store.withStore(.readWrite, setValue)
        }

        /// Sets the value, again if another process has written the key meanwhile.
        func setValue(in kv: OpenedKVStore) async throws {
            var attempts = 0
            while true {
                let old = try await kv.entry(named: key)
                let bytes = try newValue(inPlaceOf: old.map { try decoded($0.bytes) })
                var batch = KVBatch()
                // The type and version are those of the value that is replaced.
                batch.require(key, revision: old?.revision)
                batch.append(.set(name: key, bytes: bytes))
                do {
                    try await kv.commit(batch)
                } catch let error where Self.isConflict(error) && attempts < 8 {
                    // Another process has written the key since it was read.
                    attempts += 1
                    continue
                }
                try kv.finish()
                if output.json {
                    try StandardOutput.print(line: ActionLine(action: "set", key: key, bytes: bytes.count))
                }
                return
            }
        }

        private static func isConflict(_ error: any Error) -> Bool {
            (error as? KVStoreError)?.code == .conflict
        }

        private func newValue(inPlaceOf old: (value: CodedValue, version: UInt32)?) throws -> [UInt8] {
            var coded = try string ? CodedValue.string(value) : jsonOrText(value)
            if !string, case .date(let date)? = old?.value { coded = try asDate(coded, inPlaceOf: date) }
            // The app decodes the value according to its stored schema version.
            return ValueEnvelope(schemaVersion: old?.version ?? 1, payload: try coded.encoded()).encoded
        }

        /// An existing value; throws if it cannot be decoded, so that it is not overwritten.
        private func decoded(_ bytes: [UInt8]) throws -> (value: CodedValue, version: UInt32) {
            do {
                let envelope = try ValueEnvelope(decoding: bytes)
                return (try CodedValue(decoding: envelope), envelope.schemaVersion)
            } catch {
                throw CommandFailure("the value of \(key) cannot be decoded (\(error)); remove it first, with kv rm")
            }
        }

        /// JSON has no dates: a text that replaces a date is converted if it has the form in which dates are printed.
        private func asDate(_ new: CodedValue, inPlaceOf date: Date) throws -> CodedValue {
            guard case .string(let text) = new else { return new }
            if try CodedValue.date(date).json().hasSameBytes(as: new.json()) { return .date(date) }
            do {
                return .date(try Date(iso8601: text))
            } catch {
                throw ValidationError("\(key) is a date, but \(value) is not. Pass --string to store a text.")
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List all keys and their values.",
            discussion: """
                With --json every line is an object with the key, the length of its value (bytes) and the value. A value \
                that cannot be decoded, or has no form in JSON, is shown as such, with --json by the reason (undecodable) \
                instead of the value, and the exit status is 1.
                """)

        /// The rows that decide the widths of a table, and the rows that are printed at once.
        private static let rowCount = 1 << 13
        /// The size in bytes of the lines of JSON that are printed at once.
        private static let bufferSize = 1 << 16

        @OptionGroup var store: KVStoreArgument
        @OptionGroup var output: JSONOption

        func run() async throws {
            try await store.withStore(.readOnly, printValues)
        }

        private func printValues(in kv: OpenedKVStore) async throws {
            var table = TextTable([("Key", .left), ("Bytes", .right), ("Value", .left)])
            var lines = ""
            var undecodable: [String] = []
            var foreign: [String] = []
            try await kv.forEach { key, entry in
                let json = Result {
                    try CodedValue(decoding: ValueEnvelope(decoding: entry.bytes)).json(prettyPrinted: false)
                }
                if case .failure = json { undecodable.append(key) }
                guard !output.json else {
                    lines += try Self.line(key, entry.bytes, json).escapingControlsOfJSON() + "\n"
                    if lines.utf8.count >= Self.bufferSize { try Self.write(&lines) }
                    return
                }
                table.add([
                    POSIXPath(key).description, String(entry.bytes.count), Self.shown(json).shortened(to: 80),
                ])
                if table.count == Self.rowCount { try StandardOutput.print(table.takeLines()) }
            } foreign: {
                foreign.append($0.description)
            }
            if output.json { try Self.write(&lines) } else { try StandardOutput.print(table.takeLines()) }
            guard foreign.isEmpty else {
                throw CommandFailure(
                    "\(counted(foreign.count, "key")) of other programs cannot be names of a store: "
                        + foreign.joined(separator: ", ").shortened(to: 200), .partial)
            }
            guard undecodable.isEmpty else {
                let names = undecodable.joined(separator: ", ").shortened(to: 200)
                throw CommandFailure("\(counted(undecodable.count, "value")) cannot be shown: \(names)")
            }
        }

        private static func write(_ lines: inout String) throws {
            try StandardOutput.write(Data(lines.utf8))
            lines = ""
        }

        private static func shown(_ json: Result<String, any Error>) -> String {
            switch json {
            case .success(let json): json
            case .failure(let error): "cannot be shown: \(error)"
            }
        }

        /// The JSON object of one key.
        private static func line(
            _ key: String, _ bytes: [UInt8], _ json: Result<String, any Error>
        ) throws -> String {
            let (member, content) =
                switch json {
                case .success(let json): ("value", json)
                case .failure(let error): ("undecodable", try CodedValue.string("\(error)").json(prettyPrinted: false))
                }
            let name = try CodedValue.string(key).json(prettyPrinted: false)
            return #"{"key":\#(name),"bytes":\#(bytes.count),"\#(member)":\#(content)}"#
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "rm", abstract: "Remove a key.")

        @OptionGroup var store: KVStoreArgument
        @Argument(help: "The key.") var key: String
        @OptionGroup var output: JSONOption

        func run() async throws {
            try await store.withStore(.readWrite, mustExist: true, removeValue)
        }

        /// Removes the value, which must exist.
        func removeValue(in kv: OpenedKVStore) async throws {
            guard try await kv.entry(named: key) != nil else {
                throw CommandFailure("kv rm \(key): there is no such key in \(store.path)", .notFound)
            }
            try await kv.remove(key)
            try kv.finish()
            if output.json { try StandardOutput.print(line: ActionLine(action: "remove", key: key)) }
        }
    }
}

/// Decodes the stored bytes of a value of any type.
private func storedValue(_ bytes: [UInt8], of key: String) throws -> CodedValue {
    try CommandFailure.naming("the value of \(key) cannot be decoded") {
        try CodedValue(decoding: ValueEnvelope(decoding: bytes))
    }
}

/// The value of a JSON text; any other text is a string.
///
/// - Throws: `ValidationError` for a text that looks like JSON and is not valid, or cannot be stored: it is not certain
///   that a string is meant.
private func jsonOrText(_ text: String) throws(ValidationError) -> CodedValue {
    do {
        return try CodedValue(json: text)
    } catch {
        guard looksLikeJSON(text) else { return .string(text) }
        throw ValidationError("The value looks like JSON and is not: \(error). Pass --string to store it as a text.")
    }
}

/// Whether a text begins like an object, a list or a string of JSON, or is a number of it.
private func looksLikeJSON(_ text: String) -> Bool {
    let bytes = text.utf8.drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
    guard let first = bytes.first else { return false }
    if [UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\"")].contains(first) { return true }
    return text.utf8.allSatisfy { $0 < 0x80 }
        && text.wholeMatch(of: #/\s*-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*/#) != nil
}
