import Dispatch
import ForgeCoding
import ForgeCrypt
import Foundation
import Synchronization

/// Values for the checks of secret stores.
enum SecretSamples {
    /// A byte more than a secret may have, encoded or not. One for all checks: it takes the system longer to provide the
    /// memory than a store to refuse it.
    static let tooLarge = Data(count: 16 << 20 + 1)

    /// A value with fields of several types.
    struct Account: Codable, Equatable, Sendable {
        enum Role: Codable, Equatable, Sendable {
            case guest
            case member(level: Int)
        }

        var name: String
        var tokens: [String: [Int]]
        var role: Role
        var nickname: String?
    }

    /// A type that decodes from a single string; Swift's error for any other quotes it.
    enum Choice: String, Codable, Sendable {
        case only
    }

    /// A value whose encoding may fail with an error that quotes it.
    struct Refusing: Codable, Sendable {
        var text: String

        private enum CodingKeys: CodingKey {
            case text
        }

        init(text: String) {
            self.text = text
        }

        func encode(to encoder: any Encoder) throws {
            guard text == "fine" else {
                let context = EncodingError.Context(
                    codingPath: encoder.codingPath, debugDescription: "refused: \(text)")
                throw EncodingError.invalidValue(text, context)
            }
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(text, forKey: .text)
        }
    }

    /// A value whose decoding fails with an error that quotes its input.
    struct Quoting: Codable, Sendable {
        struct Refusal: Error {
            var text: String
        }

        init(from decoder: any Decoder) throws {
            throw Refusal(text: try decoder.singleValueContainer().decode(String.self))
        }
    }

    /// An object of which a part is not encoded.
    final class Partial: Codable, Sendable {
        let text: String
        let note: String

        private enum CodingKeys: CodingKey { case text }

        init(text: String, note: String) { (self.text, self.note) = (text, note) }

        init(from decoder: any Decoder) throws {
            text = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .text)
            note = ""
        }
    }

    /// A value in arrays of itself.
    struct Nest: Codable, Sendable {
        let below: [Nest]

        init(depth: Int) { below = depth > 1 ? [Nest(depth: depth - 1)] : [] }

        var depth: Int { 1 + (below.first?.depth ?? 0) }
    }

    /// A coding key that is part of a value.
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// A value that is decoded from under the coding key which it stores, where there is nothing.
    struct Pointer: Codable, Sendable {
        let target: String

        private enum CodingKeys: CodingKey { case target }

        init(target: String) { self.target = target }

        init(from decoder: any Decoder) throws {
            target = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .target)
            _ = try decoder.container(keyedBy: Name.self).decode(String.self, forKey: Name(stringValue: target))
        }
    }

    /// A value whose encoded form has a coding key that is part of the value.
    struct Wallet<Content: Codable & Sendable>: Codable, Sendable {
        let name: String
        let content: Content

        init(name: String, content: Content) { (self.name, self.content) = (name, content) }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Name.self)
            guard let key = container.allKeys.first else { throw ConformanceViolation("a wallet without a name") }
            (name, content) = (key.stringValue, try container.decode(Content.self, forKey: key))
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Name.self)
            try container.encode(content, forKey: Name(stringValue: name))
        }
    }

    /// A value whose coding makes a call, if one is registered.
    struct Asking: Codable, Sendable {
        private static let calls = Mutex<[Int: @Sendable () -> Void]>([:])

        let id: Int

        init() { id = Int.random(in: 0 ... .max) }

        /// Calls `body`, in which the coding of this value calls `call`: on another thread, so that a lock of any kind is
        /// noticed, and then on its own, so that what it stores would be lost with a lock that can be taken twice.
        func asking(_ call: @escaping @Sendable () -> Void, during body: () throws -> Void) rethrows {
            Self.calls.withLock { $0[id] = call }
            defer { _ = Self.calls.withLock { $0.removeValue(forKey: id) } }
            try body()
        }

        init(from decoder: any Decoder) throws {
            id = try decoder.singleValueContainer().decode(Int.self)
            ask()
        }

        func encode(to encoder: any Encoder) throws {
            ask()
            var container = encoder.singleValueContainer()
            try container.encode(id)
        }

        private func ask() {
            guard let call = Self.calls.withLock({ $0[id] }) else { return }
            let finished = DispatchSemaphore(value: 0)
            DispatchQueue(label: "ConformanceCheck").async {
                call()
                finished.signal()
            }
            finished.wait()
            call()
        }
    }

    /// Texts of several threads.
    final class Texts: Sendable {
        private let list = Mutex<[String]>([])

        func append(_ text: String) {
            list.withLock { $0.append(text) }
        }

        var all: [String] { list.withLock { $0 } }
    }
}

// MARK: Names

extension SecretSamples {
    /// Names that every call accepts, each of them another.
    static let names =
        [
            "../x", "/etc/passwd", "a/b", "a", "A", "a.b", ".", "..", "~", "/", "%00", "%2e%2e", "%41", "#lock", "con",
            "\n", "a\nb", "\t", " ", " a", "a ", "'; DROP", "\\", "*", "\u{FEFF}a", "🔑", "\u{E9}", "e\u{301}",
            String(repeating: "n", count: 255), String(repeating: "n", count: 1024),
            String(repeating: "\u{E9}", count: 512),
        ] + ConformanceChecks.substitutedNames

    /// Names that every call refuses: empty, of more than 1,024 bytes (1,025 and 600 Characters), with a NUL.
    static let invalidNames = [
        "", String(repeating: "n", count: 1025), String(repeating: "\u{E9}", count: 600), "a\u{0}b", "a\u{0}", "\u{0}",
    ]
}

/// A call of a store of secrets with its arguments, what it returns and changes, for checks that make every call.
///
/// The values are texts; the secrets of the calls are `a` and `new`.
struct SecretCall: Sendable {
    /// The values of all secrets of a store, by name.
    typealias Values = [String: String]

    /// The call with its arguments, as in a violation.
    let text: String

    /// The capability of stores that implement the call; nil for a required one.
    var needs: ConformanceCapability?

    /// The operation and the name in the errors of the call.
    let operation: CryptError.Operation
    let name: String?

    /// Makes the call; its result as text.
    let perform: @Sendable (any CryptStoring) throws -> String

    /// Makes the change that the call must make; the result that it must return.
    let effect: @Sendable (inout Values) -> String

    /// Whether the call must change a store with these values.
    func changes(_ values: Values) -> Bool {
        var after = values
        _ = effect(&after)
        return after != values
    }

    /// Makes the call, and expects the result that it must return in a store with `values`, which are changed as it must
    /// change them unless it throws.
    func expectEffect(
        on values: inout Values, in store: any CryptStoring, _ circumstance: String, file: StaticString = #fileID,
        line: UInt = #line
    ) throws {
        let result = try perform(store)
        let expected = effect(&values)
        try expect(
            result == expected, "\(text) \(circumstance): expected \(expected), got \(result)", file: file, line: line)
    }
}

extension SecretCall {
    private static let success = "success"

    /// Every call that changes a store, with `value`.
    static func changes(_ value: String) -> [SecretCall] {
        ["a", "new"].flatMap { name in
            [set(name, value), createIfAbsent(name, value), setRawValue(name, value)]
        } + [
            SecretCall(
                text: "delete(a)", operation: .delete, name: "a",
                perform: {
                    try $0.delete(CryptKey<String>(key: "a"))
                    return success
                },
                effect: {
                    $0["a"] = nil
                    return success
                }),
            SecretCall(
                text: "deleteValue(named: a)", needs: .rawValues, operation: .delete, name: "a",
                perform: {
                    try $0.deleteValue(named: "a")
                    return success
                },
                effect: {
                    $0["a"] = nil
                    return success
                }),
            SecretCall(
                text: "deleteAll()", operation: .deleteAll, name: nil,
                perform: {
                    try $0.deleteAll()
                    return success
                },
                effect: {
                    $0 = [:]
                    return success
                }),
        ]
    }

    /// Every call that reads, for each of `names`.
    static func reads(_ names: [String]) -> [SecretCall] {
        names.flatMap { name in [get(name), contains(name), rawValue(name)] } + [
            SecretCall(
                text: "keys()", needs: .keyListing, operation: .keys, name: nil, perform: { shown(try $0.keys()) },
                effect: { shown($0.keys.sorted()) })
        ]
    }

    static func set(_ name: String, _ value: String) -> SecretCall {
        SecretCall(
            text: "set(\(shown(value)), for: \(name))", operation: .set, name: name,
            perform: {
                try $0.set(value, for: CryptKey(key: name))
                return success
            },
            effect: {
                $0[name] = value
                return success
            })
    }

    private static func createIfAbsent(_ name: String, _ value: String) -> SecretCall {
        SecretCall(
            text: "createIfAbsent(\(shown(value)), for: \(name))", needs: .creationIfAbsent, operation: .set,
            name: name,
            perform: { "\(try $0.createIfAbsent(value, for: CryptKey(key: name)))" },
            effect: { values in
                guard values[name] == nil else { return "false" }
                values[name] = value
                return "true"
            })
    }

    private static func setRawValue(_ name: String, _ value: String) -> SecretCall {
        SecretCall(
            text: "setRawValue(\(shown(value)), named: \(name))", needs: .rawValues, operation: .set, name: name,
            perform: {
                try $0.setRawValue(try ValueCoder().encode(value), named: name, accessibility: .whenUnlocked)
                return success
            },
            effect: {
                $0[name] = value
                return success
            })
    }

    private static func get(_ name: String) -> SecretCall {
        SecretCall(
            text: "get(\(name))", operation: .get, name: name,
            perform: { try $0.get(CryptKey<String>(key: name)).map { shown($0) } ?? "nil" },
            effect: { $0[name].map { shown($0) } ?? "nil" })
    }

    private static func contains(_ name: String) -> SecretCall {
        SecretCall(
            text: "contains(\(name))", operation: .contains, name: name,
            perform: { "\(try $0.contains(CryptKey<String>(key: name)))" }, effect: { "\($0[name] != nil)" })
    }

    private static func rawValue(_ name: String) -> SecretCall {
        SecretCall(
            text: "rawValue(named: \(name))", needs: .rawValues, operation: .get, name: name,
            perform: {
                try $0.rawValue(named: name).map { shown(try ValueCoder().decode(String.self, from: $0)) } ?? "nil"
            },
            effect: { $0[name].map { shown($0) } ?? "nil" })
    }
}

// MARK: Races

extension ConformanceChecks {
    /// How two threads store and delete secrets of their own.
    struct OwnSecretCalls: Sendable {
        static let typed = OwnSecretCalls(
            set: { try $0.set($1, for: CryptKey(key: $2)) }, delete: { try $0.delete(CryptKey<Int>(key: $1)) })

        static let raw = OwnSecretCalls(
            set: { try $0.setRawValue(try ValueCoder().encode($1), named: $2, accessibility: .whenUnlocked) },
            delete: { try $0.deleteValue(named: $1) })

        var set: @Sendable (_ store: any CryptStoring, _ value: Int, _ name: String) throws -> Void
        var delete: @Sendable (_ store: any CryptStoring, _ name: String) throws -> Void
    }

    /// Expects that what a thread sets and deletes stays so, while another one sets and deletes another secret; each has
    /// its own of `stores`.
    static func expectIndependence(of stores: (any CryptStoring, any CryptStoring), _ calls: OwnSecretCalls)
        async throws
    {
        // Several names each: a store that keeps them in several files shares some of these.
        let nameCount = 8
        @Sendable func expectLast(before number: Int, of thread: String, in store: any CryptStoring) throws -> String {
            let (name, round) = ("\(thread).\(number % nameCount)", number / nameCount)
            // The state that the round before this one has left.
            let expected = round % 3 == 0 ? nil : number - nameCount
            let value = try store.get(CryptKey<Int>(key: name))
            try expect(
                value == expected,
                "get(\(name)) of the only thread that changes it: expected \(text(expected)), got \(text(value))")
            return name
        }
        @Sendable func step(_ number: Int, _ thread: String, _ store: any CryptStoring) throws {
            let name = try expectLast(before: number, of: thread, in: store)
            if number / nameCount % 3 == 2 {
                try calls.delete(store, name)
            } else {
                try calls.set(store, number, name)
            }
        }
        let number = Mutex(0)
        let (first, second) = stores
        try await overlapping(writers: 1, readers: 1, overlaps: 32) { _, call in
            try step(call, "first", first)
        } read: { _ in
            try step(number.withLock { $0 }, "second", second)
            number.withLock { $0 += 1 }
        }
        let last = number.withLock { $0 }
        for number in last..<last + nameCount { _ = try expectLast(before: number, of: "second", in: first) }
    }

    /// Expects that `deleteAll` of one store removes what was set before, while another one changes other secrets.
    static func expectDeletion(by stores: (any CryptStoring, any CryptStoring)) async throws {
        let number = Mutex(0)
        let (first, second) = stores
        @Sendable func expectDeleted() throws {
            for name in 0..<8 {
                let value = try first.get(CryptKey<Int>(key: "deleted.\(name)"))
                try expect(
                    value == nil,
                    "get(deleted.\(name)) after deleteAll() beside set of other secrets: expected nil, got \(text(value))"
                )
            }
        }
        try await overlapping(writers: 1, readers: 1, overlaps: 24) { _, call in
            try second.set(call, for: CryptKey<Int>(key: "other.\(call % 8)"))
        } read: { _ in
            // Another store may bring a secret back after the call has returned.
            try expectDeleted()
            let call = number.withLock { number in
                number += 1
                return number
            }
            for name in 0..<8 { try first.set(call, for: CryptKey<Int>(key: "deleted.\(name)")) }
            try first.deleteAll()
            try expectDeleted()
        }
        try expectDeleted()
    }

    /// Expects that of two threads that create the same secrets, one creates each; each has its own of `stores`.
    static func expectOneCreator(of stores: (any CryptStoring, any CryptStoring)) async throws {
        let current = Mutex(0)
        let creators = Mutex<[Int: [String]]>([:])
        @Sendable func create(_ thread: String, in store: any CryptStoring) throws {
            let number = current.withLock { $0 }
            let isCreator = try store.createIfAbsent(thread, for: CryptKey(key: "created.\(number)"))
            creators.withLock { if isCreator { $0[number, default: []].append(thread) } }
            current.withLock { $0 = max($0, number + 1) }
        }
        let (first, second) = stores
        try await overlapping(writers: 1, readers: 1, overlaps: 16) { _, _ in
            try create("first", in: first)
        } read: { _ in
            try create("second", in: second)
        }
        let found = creators.withLock { $0 }
        for number in 0..<current.withLock({ $0 }) {
            let call = "createIfAbsent(created.\(number)) by two threads"
            let creators = found[number] ?? []
            try expect(creators.count == 1, "\(call): expected true for one of them, got it for \(creators.count)")
            let value = try first.get(CryptKey<String>(key: "created.\(number)"))
            try expect(value == creators[0], "\(call): expected the value of the \(creators[0]), got \(text(value))")
        }
    }

    /// Expects that a thread which reads a secret always finds a whole value, while another one replaces it.
    static func expectWholeValues(
        _ store: any CryptStoring, set: @escaping @Sendable (_ pair: [Int], _ key: CryptKey<[Int]>) throws -> Void
    ) async throws {
        let key = CryptKey<[Int]>(key: "pair")
        try set([0, 0], key)
        try await overlapping(writers: 1, readers: 1, overlaps: 32) { _, call in
            try set([call, call], key)
        } read: { _ in
            let pair = try store.get(key)
            // Making the text may take longer than a call in memory, and would count as a part of it.
            guard pair?.count == 2, pair?.first == pair?.last else {
                throw ConformanceViolation(
                    "get(pair) while it is replaced: expected two equal numbers, got \(text(pair))")
            }
        }
    }

    private static func text<Value>(_ value: Value?) -> String { value.map { shown($0) } ?? "nil" }
}
