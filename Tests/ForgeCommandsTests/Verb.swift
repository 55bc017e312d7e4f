import Testing

/// One invocation of each verb of `forge`, on the stores of a ``StoreFixture``.
struct Verb: CustomTestStringConvertible, Sendable {
    /// The effect of a verb on its store.
    enum Access {
        /// Reads a store, which must exist.
        case reads
        /// Changes a store, which must exist.
        case changes
        /// Creates the store if it is missing.
        case creates
        /// Reads a store, which must exist, and writes to another place.
        case copies
        /// Uses no store.
        case none
    }

    let name: String
    let access: Access
    /// Whether a successful run writes to standard output.
    var prints = false
    var input = ""
    /// Whether it writes to the key-value store of the fixture, which another process may have open.
    var needsKeyValueStore = false
    /// Makes what the verb needs besides the stores, in their directory.
    var prepare: @Sendable (_ directory: String) throws -> Void = { _ in }
    /// The arguments after the verb, given the directory of the stores.
    let arguments: @Sendable (_ directory: String) -> [String]

    var testDescription: String { name }

    func words(in directory: String) -> [String] {
        name.split(separator: " ").map(String.init) + arguments(directory)
    }

    static let all: [Verb] = [
        Verb(name: "kv get", access: .reads, prints: true) { ["\($0)/kv", "name"] },
        Verb(name: "kv list", access: .reads, prints: true) { ["\($0)/kv"] },
        Verb(name: "kv set", access: .creates, needsKeyValueStore: true) { ["\($0)/kv", "name", "new"] },
        Verb(name: "kv rm", access: .changes, needsKeyValueStore: true) { ["\($0)/kv", "name"] },
        Verb(name: "file get", access: .reads, prints: true) { ["\($0)/files", "a.txt"] },
        Verb(name: "file list", access: .reads, prints: true) { ["\($0)/files"] },
        Verb(name: "file set", access: .creates, input: "new") { ["\($0)/files", "a.txt"] },
        Verb(name: "file rm", access: .changes) { ["\($0)/files", "a.txt"] },
        Verb(name: "secret get", access: .reads, prints: true) { vault(in: $0) + ["token"] },
        Verb(name: "secret list", access: .reads, prints: true) { vault(in: $0) },
        Verb(name: "secret set", access: .changes, input: "new") { vault(in: $0) + ["token"] },
        Verb(name: "secret rm", access: .changes) { vault(in: $0) + ["token"] },
        Verb(name: "check", access: .reads, prints: true) { [$0] },
        Verb(name: "du", access: .reads, prints: true) { [$0] },
        // There is nothing to repair.
        Verb(name: "repair", access: .reads, prints: true) { [$0] },
        Verb(name: "watch", access: .reads, prints: true) { ["kv:\($0)/kv", "--count", "1"] },
        Verb(name: "copy", access: .copies, prints: true) { ["file:\($0)/files", "tree:\($0)/tree"] },
        Verb(
            name: "copy", access: .creates, prints: true, input: "{\"key\":\"new\",\"value\":1}\n",
            needsKeyValueStore: true
        ) { ["json:-", "kv:\($0)/kv"] },
        Verb(name: "copy", access: .copies, prints: true) { ["kv:\($0)/kv", "json:\($0)/lines"] },
        Verb(name: "backup", access: .copies, prints: true) { ["\($0)/files", "\($0)/backup"] },
        Verb(
            name: "restore", access: .copies, prints: true,
            prepare: { directory in
                _ = try CommandRun(["backup", "\(directory)/files", "\(directory)/backup"])
            }
        ) { ["\($0)/backup", "\($0)/restored"] },
        Verb(name: "demo", access: .creates, prints: true) { ["--directory", "\($0)/demo"] },
        Verb(name: "--help", access: .none, prints: true) { _ in [] },
        Verb(name: "help kv", access: .none, prints: true) { _ in [] },
        Verb(name: "--version", access: .none, prints: true) { _ in [] },
    ]

    private static func vault(in directory: String) -> [String] {
        ["\(directory)/vault/v", "--key-file", "\(directory)/vault/key"]
    }
}
