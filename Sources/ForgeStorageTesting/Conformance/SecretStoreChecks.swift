import Dispatch
public import ForgeCrypt
import Foundation
import Synchronization

extension ConformanceChecks {
    /// The promises of a secret store; each check needs a new, empty store.
    public static let secretStore: [ConformanceCheck<any CryptStoring>] =
        secretPresence + secretCreation + secretValues + secretNames + secretRawValues + secretFailures
        + secretConcurrency
}

extension ConformanceChecks {
    static let secretToken = CryptKey<String>(key: "auth.access")
    static let secretRefresh = CryptKey<String>(key: "auth.refresh")

    static let secretPresence: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("a secret that was never set is nil") { store in
            try expectEqual(try store.get(secretToken), nil, "get")
        },
        ConformanceCheck("a value that was set is returned") { store in
            try store.set("token123", for: secretToken)
            try expectEqual(try store.get(secretToken), "token123", "get")
            try expectEqual(try store.get(secretToken), "token123", "get again")
        },
        ConformanceCheck("setting again replaces the value") { store in
            try store.set("first", for: secretToken)
            try store.set("second", for: secretToken)
            try expectEqual(try store.get(secretToken), "second", "get")
        },
        ConformanceCheck("a shorter value fully replaces a longer one") { store in
            try store.set(String(repeating: "x", count: 10_000), for: secretToken)
            try store.set("y", for: secretToken)
            try expectEqual(try store.get(secretToken), "y", "get")
        },
        ConformanceCheck("a deleted secret is nil, the others are kept") { store in
            try store.set("a", for: secretToken)
            try store.set("b", for: secretRefresh)
            try store.delete(secretToken)
            try expectEqual(try store.get(secretToken), nil, "get")
            try expectEqual(try store.get(secretRefresh), "b", "get of the other")
        },
        ConformanceCheck("deleting a secret keeps those whose names begin with its name, in either case") { store in
            let others = ["key2", "key.b", "key/b", "KEY", "kez"]
            for name in ["key"] + others { try store.set(name, for: CryptKey<String>(key: name)) }
            try store.delete(CryptKey<String>(key: "key"))
            for name in others {
                try expectEqual(try store.get(CryptKey<String>(key: name)), name, "get(\(name)) after delete(key)")
            }
        },
        ConformanceCheck("deleting a missing secret succeeds") { store in
            try store.delete(secretToken)
            try store.set("a", for: secretRefresh)
            try store.delete(secretToken)
            try store.delete(secretToken)
            try expectEqual(try store.get(secretRefresh), "a", "get of the other")
        },
        ConformanceCheck("contains is true exactly while there is a value") { store in
            try expectEqual(try store.contains(secretToken), false, "contains(auth.access) before set")
            try store.set("a", for: secretToken)
            try expectEqual(try store.contains(secretToken), true, "contains(auth.access) after set")
            try store.delete(secretToken)
            try expectEqual(try store.contains(secretToken), false, "contains(auth.access) after delete")
        },
        ConformanceCheck("contains ignores the type of the value") { store in
            try store.set("a", for: secretToken)
            let isThere = try store.contains(CryptKey<Int>(key: secretToken.key))
            try expectEqual(isThere, true, "contains(auth.access as Int) of a String")
        },
        ConformanceCheck("a key of another type deletes the secret too") { store in
            try store.set("a", for: secretToken)
            try store.delete(CryptKey<Int>(key: secretToken.key))
            try expectEqual(try store.get(secretToken), nil, "get(auth.access) after delete(auth.access as Int)")
        },
        ConformanceCheck("a secret that was deleted can be set again") { store in
            try store.set("a", for: secretToken)
            try store.delete(secretToken)
            try store.set("b", for: secretToken)
            try expectEqual(try store.get(secretToken), "b", "get")
        },
        ConformanceCheck("deleting all leaves an empty store") { store in
            try store.set("a", for: secretToken)
            try store.set("b", for: secretRefresh)
            try store.deleteAll()
            try expectEqual(try store.get(secretToken), nil, "get")
            try expectEqual(try store.contains(secretRefresh), false, "contains(auth.refresh) after deleteAll")
        },
        ConformanceCheck("deleting all removes the secrets of every accessibility") { store in
            let keys = CryptAccessibility.allCases.map { CryptKey<String>(key: $0.rawValue, accessibility: $0) }
            for key in keys { try store.set("value", for: key) }
            try store.deleteAll()
            for key in keys {
                try expectEqual(
                    try store.get(key), nil, "get(\(key.key)) after deleteAll of a secret \(key.accessibility)")
            }
        },
        ConformanceCheck("deleting all from an empty store succeeds, also repeatedly") { store in
            try store.deleteAll()
            try store.set("a", for: secretToken)
            try store.deleteAll()
            try store.deleteAll()
            try expectEqual(try store.get(secretToken), nil, "get")
        },
        ConformanceCheck("values can be set in an emptied store") { store in
            try store.set("a", for: secretToken)
            try store.deleteAll()
            try store.set("b", for: secretRefresh)
            try expectEqual(try store.get(secretRefresh), "b", "get")
            try expectEqual(try store.get(secretToken), nil, "get of the one before")
        },
        ConformanceCheck("the name alone identifies a secret, not the accessibility") { store in
            try store.set("a", for: CryptKey<String>(key: "k", accessibility: .afterFirstUnlock))
            let other = CryptKey<String>(key: "k", accessibility: .whenUnlockedThisDeviceOnly)
            try expectEqual(try store.get(other), "a", "get with another accessibility")
            try store.set("b", for: other)
            try expectEqual(try store.get(CryptKey<String>(key: "k")), "b", "get after setting with another")
            try store.delete(CryptKey<String>(key: "k"))
            try expectEqual(try store.contains(other), false, "contains(k) with another accessibility after delete(k)")
        },
        ConformanceCheck("every accessibility is accepted") { store in
            for accessibility in CryptAccessibility.allCases {
                let key = CryptKey<String>(key: accessibility.rawValue, accessibility: accessibility)
                try store.set(accessibility.rawValue, for: key)
                try expectEqual(try store.get(key), accessibility.rawValue, "get of \(accessibility)")
            }
        },
    ]

    @discardableResult
    static func expectSecretError<Result>(
        _ code: CryptError.Code, _ what: String, file: StaticString = #fileID, line: UInt = #line,
        _ body: () throws -> Result
    ) async throws -> CryptError {
        let error = try await expectError(CryptError.self, "\(what): \(code)", file: file, line: line) { try body() }
        try expectEqual(error.code, code, "\(what): the code of \(error)", file: file, line: line)
        return error
    }
}

extension ConformanceChecks {
    static let secretCreation: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("createIfAbsent stores a value once", needs: [.creationIfAbsent]) { store in
            try expectEqual(
                try store.createIfAbsent("first", for: secretToken), true, "createIfAbsent of an absent secret")
            try expectEqual(try store.get(secretToken), "first", "get")
            try expectEqual(
                try store.createIfAbsent("second", for: secretToken), false, "createIfAbsent of a present secret")
            try expectEqual(try store.get(secretToken), "first", "get after the second call")
            try store.delete(secretToken)
            try expectEqual(try store.createIfAbsent("third", for: secretToken), true, "createIfAbsent after delete")
            try expectEqual(try store.get(secretToken), "third", "get after delete")
        },
        ConformanceCheck(
            "createIfAbsent keeps a stored nil and a value of another type", needs: [.creationIfAbsent]
        ) { store in
            let optional = CryptKey<String?>(key: "optional")
            try store.set(nil, for: optional)
            try expectEqual(try store.createIfAbsent("value", for: optional), false, "createIfAbsent over a stored nil")
            guard let kept = try store.get(optional) else { throw ConformanceViolation("the stored nil is gone") }
            try expectEqual(kept, nil, "get of the stored nil")
            try store.set("text", for: secretToken)
            let number = CryptKey<Int>(key: secretToken.key)
            try expectEqual(
                try store.createIfAbsent(1, for: number), false, "createIfAbsent(auth.access as Int) over a String")
            try expectEqual(try store.get(secretToken), "text", "get of the other type")
        },
        ConformanceCheck("createIfAbsent refuses what set refuses", needs: [.creationIfAbsent]) { store in
            try await expectSecretError(.invalidKey, "createIfAbsent without a name") {
                try store.createIfAbsent("value", for: CryptKey(key: ""))
            }
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            try await expectSecretError(.unencodable, "createIfAbsent") {
                try store.createIfAbsent(SecretSamples.Refusing(text: "s3cr3t-marker"), for: key)
            }
            try expectEqual(try store.contains(key), false, "contains(refusing) after the refused createIfAbsent")
        },
        ConformanceCheck(
            "of concurrent createIfAbsent calls exactly one stores its value", needs: [.creationIfAbsent]
        ) { store in
            for round in 0..<4 {
                let key = CryptKey<Int>(key: "created.\(round)")
                let winners = Mutex<[Int]>([])
                let failures = inParallel(4) { thread in
                    guard try store.createIfAbsent(thread, for: key) else { return }
                    winners.withLock { $0.append(thread) }
                }
                try expectEqual(failures, [], "failures")
                let stored = winners.withLock { $0 }
                try expectEqual(stored.count, 1, "calls that stored a value")
                try expectEqual(try store.get(key), stored.first, "get")
            }
        },
    ]
}

extension ConformanceChecks {
    static let secretValues: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("an empty string and empty data are values") { store in
            try roundTrip("", in: store)
            try roundTrip(Data(), in: store)
            try roundTrip([Int](), in: store)
        },
        ConformanceCheck("booleans, integers and floating-point numbers round-trip exactly") { store in
            try roundTrip(false, in: store)
            try roundTrip(true, in: store)
            try roundTrip(Int.min, in: store)
            try roundTrip(UInt64.max, in: store)
            try roundTrip(Int8(-128), in: store)
            try roundTrip(0.1, in: store)
            try roundTrip(Double.greatestFiniteMagnitude, in: store)
            try roundTrip(Float(1.5), in: store)
        },
        ConformanceCheck("data round-trips byte for byte") { store in
            try roundTrip(Data(0...255), in: store)
            try roundTrip([UInt8](0...255), in: store)
        },
        ConformanceCheck("text of every kind round-trips") { store in
            try roundTrip("e\u{301} é 🔑 \u{0} \u{FFFD} \r\n\t\"\\", in: store)
        },
        ConformanceCheck("dates and URLs round-trip") { store in
            try roundTrip(Date(timeIntervalSinceReferenceDate: 0.125), in: store)
            try roundTrip(URL(filePath: "/tmp/a b"), in: store)
        },
        ConformanceCheck("structures, enumerations, arrays and dictionaries round-trip") { store in
            let account = SecretSamples.Account(
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
            try expectEqual(try store.contains(key), true, "contains(optional) of a stored nil")
        },
        ConformanceCheck("a value of one megabyte round-trips") { store in
            try roundTrip(Data.patterned(count: 1_000_000), in: store)
        },
        ConformanceCheck("a hundred secrets stay distinct") { store in
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
}

extension ConformanceChecks {
    static let secretFailures: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("a value of another type is undecodable, not absent, and is kept") { store in
            try store.set("text", for: secretToken)
            let error = try await expectSecretError(.undecodable, "get as an account") {
                try store.get(CryptKey<SecretSamples.Account>(key: secretToken.key))
            }
            try expectEqual(error.key, secretToken.key, "the key of the error")
            try expectEqual(try store.get(secretToken), "text", "get after")
        },
        ConformanceCheck("a value that cannot be encoded is refused, and the old one is kept") { store in
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            try store.set(SecretSamples.Refusing(text: "fine"), for: key)
            try await expectSecretError(.unencodable, "set") {
                try store.set(SecretSamples.Refusing(text: marker), for: key)
            }
            try expectEqual(try store.get(key)?.text, "fine", "get after")
            try expectEqual(try store.contains(key), true, "contains(refusing) after the refused set")
        },
        ConformanceCheck("a value of more than 16 MiB is refused, and the old one is kept") { store in
            let key = CryptKey<Data>(key: "large")
            try store.set(Data("small".utf8), for: key)
            try await expectSecretError(.tooLarge, "set") { try store.set(Data(count: 16 << 20 + 1), for: key) }
            try expectEqual(try store.get(key), Data("small".utf8), "get after")
        },
        ConformanceCheck("no error shows a value, however it is printed") { store in
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            let unencodable = try await expectSecretError(.unencodable, "set") {
                try store.set(SecretSamples.Refusing(text: marker), for: key)
            }
            try store.set(marker, for: secretToken)
            let undecodable = try await expectSecretError(.undecodable, "get as a choice") {
                try store.get(CryptKey<SecretSamples.Choice>(key: secretToken.key))
            }
            let asRefusing = try await expectSecretError(.undecodable, "get as a type that quotes") {
                try store.get(CryptKey<SecretSamples.Quoting>(key: secretToken.key))
            }
            try expectNoMarker(in: unencodable, "the error of set(refusing), .unencodable,")
            try expectNoMarker(in: undecodable, "the error of get(auth.access as Choice), .undecodable,")
            try expectNoMarker(in: asRefusing, "the error of get(auth.access as Quoting), .undecodable,")
        },
        ConformanceCheck("no reflection of the store shows a value") { store in
            try store.set(marker, for: secretToken)
            try store.set(Data(marker.utf8), for: CryptKey(key: "data"))
            try expectNoMarker(in: store, "the store")
            try expectEqual(try store.get(secretToken), marker, "get")
        },
    ]

    /// A secret to search for in everything printable.
    private static let marker = "s3cr3t-marker"

    private static func expectNoMarker(in subject: Any, _ what: String) throws {
        var dumped = ""
        dump(subject, to: &dumped)
        let shown = [
            ("description", String(describing: subject)), ("reflection", String(reflecting: subject)), ("dump", dumped),
        ]
        for (form, text) in shown where showsMarker(text) {
            let properties = Mirror(reflecting: subject).children.filter { showsMarker("\($0.value)") }.map {
                $0.label ?? "?"
            }
            let place = properties.isEmpty ? "" : " in the property " + properties.joined(separator: ", ")
            throw ConformanceViolation("\(what) shows the value in its \(form)\(place)")
        }
    }

    /// Whether a text has the marker, or its bytes as an array prints or dumps them.
    private static func showsMarker(_ text: String) -> Bool {
        let numbers = marker.utf8.prefix(6).map(String.init)
        let lines = text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        return text.contains(marker) || text.contains(numbers.joined(separator: ", "))
            || lines.joined().contains("- " + numbers.joined(separator: "- "))
    }

    // MARK: Concurrency

    static let secretConcurrency: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("the code of a value can use the store while the value is set and read") { store in
            try store.set("other", for: secretToken)
            try SecretSamples.Asking.asking(store) { value in
                let key = CryptKey<SecretSamples.Asking>(key: "asking")
                try store.set(value, for: key)
                try expectEqual(try store.get(key)?.id, value.id, "get(asking), whose init(from:) reads auth.access")
            }
        },
        ConformanceCheck(
            "the code of a value can use the store while the value is created", needs: [.creationIfAbsent]
        ) { store in
            try SecretSamples.Asking.asking(store) { value in
                let key = CryptKey<SecretSamples.Asking>(key: "asking")
                try expectEqual(try store.createIfAbsent(value, for: key), true, "createIfAbsent(asking)")
            }
        },
        ConformanceCheck("values set by concurrent threads are all kept") { store in
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

    /// Runs `body` on several threads concurrently and returns the descriptions of their errors.
    static func inParallel(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) -> [String] {
        let failures = SecretSamples.Failures()
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
