import Dispatch
public import ForgeCrypt
import Foundation

extension ConformanceChecks {
    /// What every store of secrets promises; each check wants a fresh, empty store.
    public static let secretStore: [ConformanceCheck<any CryptStoring>] =
        secretPresence + secretValues + secretNames + secretFailures + secretConcurrency
}

extension ConformanceChecks {
    private static let token = CryptKey<String>(key: "auth.access")
    private static let refresh = CryptKey<String>(key: "auth.refresh")

    // MARK: Presence

    private static let secretPresence: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("a secret that was never set is nil") { store in
            try expectEqual(try store.get(token), nil, "get")
        },
        ConformanceCheck("a value that was set is returned") { store in
            try store.set("token123", for: token)
            try expectEqual(try store.get(token), "token123", "get")
            try expectEqual(try store.get(token), "token123", "get again")
        },
        ConformanceCheck("setting again replaces the value") { store in
            try store.set("first", for: token)
            try store.set("second", for: token)
            try expectEqual(try store.get(token), "second", "get")
        },
        ConformanceCheck("a shorter value leaves nothing of a longer one") { store in
            try store.set(String(repeating: "x", count: 10_000), for: token)
            try store.set("y", for: token)
            try expectEqual(try store.get(token), "y", "get")
        },
        ConformanceCheck("a deleted secret is nil, the others stay") { store in
            try store.set("a", for: token)
            try store.set("b", for: refresh)
            try store.delete(token)
            try expectEqual(try store.get(token), nil, "get")
            try expectEqual(try store.get(refresh), "b", "get of the other")
        },
        ConformanceCheck("deleting what is not there is no error") { store in
            try store.delete(token)
            try store.set("a", for: refresh)
            try store.delete(token)
            try store.delete(token)
            try expectEqual(try store.get(refresh), "a", "get of the other")
        },
        ConformanceCheck("contains is true exactly while there is a value") { store in
            try expect(try !store.contains(token), "contains before set")
            try store.set("a", for: token)
            try expect(try store.contains(token), "contains after set")
            try store.delete(token)
            try expect(try !store.contains(token), "contains after delete")
        },
        ConformanceCheck("contains asks for any value, of whatever type") { store in
            try store.set("a", for: token)
            try expect(try store.contains(CryptKey<Int>(key: token.key)), "contains with another type")
        },
        ConformanceCheck("a secret that was deleted can be set again") { store in
            try store.set("a", for: token)
            try store.delete(token)
            try store.set("b", for: token)
            try expectEqual(try store.get(token), "b", "get")
        },
        ConformanceCheck("deleting all leaves nothing") { store in
            try store.set("a", for: token)
            try store.set("b", for: refresh)
            try store.deleteAll()
            try expectEqual(try store.get(token), nil, "get")
            try expect(try !store.contains(refresh), "contains")
        },
        ConformanceCheck("deleting all of nothing is no error, and once more is none") { store in
            try store.deleteAll()
            try store.set("a", for: token)
            try store.deleteAll()
            try store.deleteAll()
            try expectEqual(try store.get(token), nil, "get")
        },
        ConformanceCheck("a store that was emptied takes values again") { store in
            try store.set("a", for: token)
            try store.deleteAll()
            try store.set("b", for: refresh)
            try expectEqual(try store.get(refresh), "b", "get")
            try expectEqual(try store.get(token), nil, "get of the one before")
        },
        ConformanceCheck("the name alone tells the secret, not the accessibility") { store in
            try store.set("a", for: CryptKey<String>(key: "k", accessibility: .afterFirstUnlock))
            let other = CryptKey<String>(key: "k", accessibility: .whenUnlockedThisDeviceOnly)
            try expectEqual(try store.get(other), "a", "get with another accessibility")
            try store.set("b", for: other)
            try expectEqual(try store.get(CryptKey<String>(key: "k")), "b", "get after setting with another")
            try store.delete(CryptKey<String>(key: "k"))
            try expect(try !store.contains(other), "contains after delete")
        },
        ConformanceCheck("every accessibility is accepted") { store in
            for accessibility in CryptAccessibility.allCases {
                let key = CryptKey<String>(key: accessibility.rawValue, accessibility: accessibility)
                try store.set(accessibility.rawValue, for: key)
                try expectEqual(try store.get(key), accessibility.rawValue, "get of \(accessibility)")
            }
        },
    ]

    // MARK: Values

    private static let secretValues: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("an empty string and no bytes are values") { store in
            try roundTrip("", in: store)
            try roundTrip(Data(), in: store)
            try roundTrip([Int](), in: store)
        },
        ConformanceCheck("truth values, integers and floating point numbers come back exactly") { store in
            try roundTrip(false, in: store)
            try roundTrip(true, in: store)
            try roundTrip(Int.min, in: store)
            try roundTrip(UInt64.max, in: store)
            try roundTrip(Int8(-128), in: store)
            try roundTrip(0.1, in: store)
            try roundTrip(Double.greatestFiniteMagnitude, in: store)
            try roundTrip(Float(1.5), in: store)
        },
        ConformanceCheck("data comes back byte for byte") { store in
            try roundTrip(Data(0...255), in: store)
            try roundTrip([UInt8](0...255), in: store)
        },
        ConformanceCheck("text of every kind comes back") { store in
            try roundTrip("e\u{301} é 🔑 \u{0} \u{FFFD} \r\n\t\"\\", in: store)
        },
        ConformanceCheck("dates and URLs come back") { store in
            try roundTrip(Date(timeIntervalSinceReferenceDate: 0.125), in: store)
            try roundTrip(URL(filePath: "/tmp/a b"), in: store)
        },
        ConformanceCheck("structures, enumerations, arrays and dictionaries come back") { store in
            let account = SampleAccount(
                name: "Ada", tokens: ["a": [1, 2], "b": []], role: .member(level: 3), nickname: nil)
            try roundTrip(account, in: store)
            try roundTrip([account, account], in: store)
            try roundTrip(["x": account], in: store)
        },
        ConformanceCheck("a stored nil is a value, not an absence") { store in
            let key = CryptKey<String?>(key: "optional")
            try expect(try store.get(key) == nil, "get before set")
            try store.set(nil, for: key)
            guard let stored = try store.get(key) else { throw ConformanceViolation("a stored nil reads as absent") }
            try expectEqual(stored, nil, "get")
            try expect(try store.contains(key), "contains")
        },
        ConformanceCheck("a value of one megabyte comes back") { store in
            try roundTrip(Data((0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }), in: store)
        },
        ConformanceCheck("a hundred secrets are kept apart") { store in
            for number in 0..<100 { try store.set(number, for: CryptKey(key: "number.\(number)")) }
            for number in stride(from: 0, to: 100, by: 3) { try store.delete(CryptKey<Int>(key: "number.\(number)")) }
            for number in 0..<100 {
                let expected = number % 3 == 0 ? nil : number
                try expectEqual(try store.get(CryptKey<Int>(key: "number.\(number)")), expected, "number.\(number)")
            }
        },
    ]

    private static func roundTrip<Value: Codable & Sendable & Equatable>(
        _ value: Value, in store: any CryptStoring
    ) throws {
        let key = CryptKey<Value>(key: "value")
        try store.set(value, for: key)
        guard try store.get(key) == value else { throw ConformanceViolation("\(value) did not come back") }
    }

    // MARK: Names

    private static let secretNames: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("names are told apart byte by byte") { store in
            let names = ["key", "Key", "KEY", "key ", " key", "key.", "keys", "ke", "\u{E9}", "e\u{301}", "ß", "ss"]
            for (index, name) in names.enumerated() { try store.set(index, for: CryptKey(key: name)) }
            for (index, name) in names.enumerated() {
                try expectEqual(try store.get(CryptKey<Int>(key: name)), index, "name \(index)")
            }
        },
        ConformanceCheck("a name is only a name, whatever it means elsewhere") { store in
            let names = [
                "../x", "/etc/passwd", "a/b", "a", ".", "..", "~", "%00", "%2e%2e", "#lock", "con", "\n", "'; DROP",
                "\\", "*", "🔑", String(repeating: "n", count: 1024),
            ]
            for (index, name) in names.enumerated() { try store.set(index, for: CryptKey(key: name)) }
            for (index, name) in names.enumerated() {
                try expectEqual(try store.get(CryptKey<Int>(key: name)), index, "name \(index)")
                try store.delete(CryptKey<Int>(key: name))
                try expect(try !store.contains(CryptKey<Int>(key: name)), "name \(index) after delete")
            }
        },
        ConformanceCheck("a name that is empty, too long or holds a NUL is refused by every call") { store in
            for name in ["", String(repeating: "n", count: 1025), "a\u{0}b"] {
                let key = CryptKey<String>(key: name)
                try await expectCode(.invalidKey, "get") { try store.get(key) }
                try await expectCode(.invalidKey, "set") { try store.set("v", for: key) }
                try await expectCode(.invalidKey, "delete") { try store.delete(key) }
                try await expectCode(.invalidKey, "contains") { try store.contains(key) }
            }
        },
        ConformanceCheck("a list of names, where there is one, is complete and in order") { store in
            do {
                try expectEqual(try store.keys(), [], "keys of nothing")
                for name in ["b", "a/1", "B", "e\u{301}", "a"] { try store.set(1, for: CryptKey(key: name)) }
                try store.delete(CryptKey<Int>(key: "a/1"))
                let names = try store.keys().map { Array($0.utf8) }
                try expectEqual(names, ["B", "a", "b", "e\u{301}"].map { Array($0.utf8) }, "keys")
            } catch let error as CryptError where error.code == .unsupported {
                return
            }
        },
        ConformanceCheck("raw values, where there are any, are what the typed calls read and write") { store in
            do {
                try expectEqual(try store.rawValue(named: "auth.access"), nil, "raw value of nothing")
                try store.set("token", for: token)
                guard let raw = try store.rawValue(named: "auth.access") else {
                    throw ConformanceViolation("no raw value of a secret that was set")
                }
                try store.setRawValue(raw, named: "auth.refresh", accessibility: .whenUnlocked)
                try expectEqual(try store.get(refresh), "token", "get of a raw value")
                try store.deleteValue(named: "auth.refresh")
                try store.deleteValue(named: "auth.refresh")
                try expectEqual(try store.get(refresh), nil, "get after deleting by name")
            } catch let error as CryptError where error.code == .unsupported {
                return
            }
        },
    ]

    // MARK: Failures

    private static let secretFailures: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("a value of another type is undecodable, not absent, and stays") { store in
            try store.set("text", for: token)
            let error = try await expectCode(.undecodable, "get as an account") {
                try store.get(CryptKey<SampleAccount>(key: token.key))
            }
            try expectEqual(error.key, token.key, "the key of the error")
            try expectEqual(try store.get(token), "text", "get after")
        },
        ConformanceCheck("a value that has no encoding is refused, and the old one stays") { store in
            let key = CryptKey<Refusing>(key: "refusing")
            try store.set(Refusing(text: "fine"), for: key)
            try await expectCode(.unencodable, "set") { try store.set(Refusing(text: marker), for: key) }
            try expectEqual(try store.get(key)?.text, "fine", "get after")
            try expect(try store.contains(key), "contains after")
        },
        ConformanceCheck("a value of more than 16 MiB is refused, and the old one stays") { store in
            let key = CryptKey<Data>(key: "large")
            try store.set(Data("small".utf8), for: key)
            try await expectCode(.tooLarge, "set") { try store.set(Data(count: 16 << 20 + 1), for: key) }
            try expectEqual(try store.get(key), Data("small".utf8), "get after")
        },
        ConformanceCheck("no error shows a value, however it is printed") { store in
            let key = CryptKey<Refusing>(key: "refusing")
            let unencodable = try await expectCode(.unencodable, "set") {
                try store.set(Refusing(text: marker), for: key)
            }
            try store.set(marker, for: token)
            let undecodable = try await expectCode(.undecodable, "get as a choice") {
                try store.get(CryptKey<SampleChoice>(key: token.key))
            }
            let asRefusing = try await expectCode(.undecodable, "get as a type that quotes") {
                try store.get(CryptKey<Quoting>(key: token.key))
            }
            for error in [unencodable, undecodable, asRefusing] { try expectNoMarker(in: error, "an error") }
        },
        ConformanceCheck("no reflection of the store shows a value") { store in
            try store.set(marker, for: token)
            try store.set(Data(marker.utf8), for: CryptKey(key: "data"))
            try expectNoMarker(in: store, "the store")
            try expectEqual(try store.get(token), marker, "get")
        },
    ]

    /// A secret that is looked for in everything that can be printed.
    private static let marker = "s3cr3t-marker"

    /// Also looks for the marker's bytes, as a dump of an array shows them.
    private static func expectNoMarker(in subject: Any, _ what: String) throws {
        var dumped = ""
        dump(subject, to: &dumped)
        let shown = [String(describing: subject), String(reflecting: subject), dumped]
        let numbers = marker.utf8.prefix(6).map(String.init)
        for text in shown {
            try expect(!text.contains(marker), "\(what) shows the value")
            try expect(!text.contains(numbers.joined(separator: ", ")), "\(what) shows the value's bytes")
            let lines = text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            try expect(!lines.joined().contains("- " + numbers.joined(separator: "- ")), "\(what) dumps the value")
        }
    }

    @discardableResult
    private static func expectCode<Result>(
        _ code: CryptError.Code, _ what: String, _ body: () throws -> Result
    ) async throws -> CryptError {
        let error = try await expectError(CryptError.self, what) { try body() }
        try expectEqual(error.code, code, what)
        return error
    }

    // MARK: Concurrency

    private static let secretConcurrency: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("what several threads set at once is all kept") { store in
            let failures = inParallel(4) { thread in
                for number in 0..<8 { try store.set(thread * 100 + number, for: CryptKey(key: "\(thread).\(number)")) }
            }
            try expectEqual(failures, [], "failures")
            for thread in 0..<4 {
                for number in 0..<8 {
                    let value = try store.get(CryptKey<Int>(key: "\(thread).\(number)"))
                    try expectEqual(value, thread * 100 + number, "\(thread).\(number)")
                }
            }
        },
        ConformanceCheck("a value that is read while it is replaced is the old one or the new one") { store in
            let key = CryptKey<[Int]>(key: "pair")
            try store.set([0, 0], for: key)
            let failures = inParallel(4) { thread in
                for number in 1...16 {
                    if thread < 2 {
                        try store.set([number, number], for: key)
                    } else {
                        guard let pair = try store.get(key), pair.count == 2, pair[0] == pair[1] else {
                            throw ConformanceViolation("torn or absent")
                        }
                    }
                }
            }
            try expectEqual(failures, [], "failures")
        },
    ]

    /// Runs `body` on that many threads at once and returns the descriptions of what they threw.
    private static func inParallel(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) -> [String] {
        let failures = Failures()
        DispatchQueue.concurrentPerform(iterations: count) { thread in
            do {
                try body(thread)
            } catch {
                failures.append("\(error)")
            }
        }
        return failures.all
    }
}
