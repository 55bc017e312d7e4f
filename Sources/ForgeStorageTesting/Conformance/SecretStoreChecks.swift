public import ForgeCrypt
import Foundation

extension ConformanceChecks {
    /// The promises of a secret store; each check needs a new, empty store.
    public static let secretStore: [ConformanceCheck<any CryptStoring>] =
        (secretPresence + secretCreation + secretValues + secretNames + secretRawValues + secretFailures
        + secretConcurrency).map { $0.on { TracedSecrets($0) } }
}

/// A secret store whose calls the violations of a check name.
struct TracedSecrets: CryptStoring, CustomReflectable, CustomStringConvertible, CustomDebugStringConvertible {
    let base: any CryptStoring

    init(_ base: any CryptStoring) { self.base = base }

    var customMirror: Mirror { Mirror(reflecting: base) }
    var description: String { "\(base)" }
    var debugDescription: String { String(reflecting: base) }

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
        try CallTrace.naming("get(\(key.key.escaped))") { try base.get(key) }
    }

    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
        try CallTrace.naming("set(for: \(key.key.escaped))") { try base.set(value, for: key) }
    }

    func delete<Value>(_ key: CryptKey<Value>) throws {
        try CallTrace.naming("delete(\(key.key.escaped))") { try base.delete(key) }
    }

    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool {
        try CallTrace.naming("contains(\(key.key.escaped))") { try base.contains(key) }
    }

    func deleteAll() throws { try CallTrace.naming("deleteAll()") { try base.deleteAll() } }

    func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
        try CallTrace.naming("createIfAbsent(for: \(key.key.escaped))") { try base.createIfAbsent(value, for: key) }
    }

    func keys() throws -> [String] { try CallTrace.naming("keys()") { try base.keys() } }

    func rawValue(named name: String) throws -> [UInt8]? {
        try CallTrace.naming("rawValue(named: \(name.escaped))") { try base.rawValue(named: name) }
    }

    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
        try CallTrace.naming("setRawValue(\(bytes.count) bytes, named: \(name.escaped))") {
            try base.setRawValue(bytes, named: name, accessibility: accessibility)
        }
    }

    func deleteValue(named name: String) throws {
        try CallTrace.naming("deleteValue(named: \(name.escaped))") { try base.deleteValue(named: name) }
    }
}

extension SecretStoreLocation {
    /// The same location, with stores whose calls violations name.
    var traced: SecretStoreLocation {
        var traced = SecretStoreLocation { [open] in TracedSecrets(try open()) }
        (traced.fillDevice, traced.makeReadOnly) = (fillDevice, makeReadOnly)
        (traced.setFailing, traced.giveAway) = (setFailing, giveAway)
        return traced
    }
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
            for accessibility in CryptAccessibility.allCases {
                for other in CryptAccessibility.allCases where other != accessibility {
                    let key = CryptKey<String>(key: "k", accessibility: accessibility)
                    let otherKey = CryptKey<String>(key: "k", accessibility: other)
                    let after = "after set(k, \(accessibility))"
                    try store.set("a", for: key)
                    try expectEqual(try store.get(otherKey), "a", "get(k, \(other)) \(after)")
                    try expectEqual(try store.contains(otherKey), true, "contains(k, \(other)) \(after)")
                    try store.set("b", for: otherKey)
                    try expectEqual(try store.get(key), "b", "get(k, \(accessibility)) \(after) and set(k, \(other))")
                    try store.delete(key)
                    try expectEqual(
                        try store.contains(otherKey), false,
                        "contains(k, \(other)) after set(k, \(other)) and delete(k, \(accessibility))")
                }
            }
        },
        ConformanceCheck("every accessibility is accepted") { store in
            for accessibility in CryptAccessibility.allCases {
                let key = CryptKey<String>(key: accessibility.rawValue, accessibility: accessibility)
                try store.set(accessibility.rawValue, for: key)
                try expectEqual(try store.get(key), accessibility.rawValue, "get of \(accessibility)")
            }
        },
    ]
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
            "createIfAbsent keeps a stored nil, and a value of another type or accessibility",
            needs: [.creationIfAbsent]
        ) { store in
            let optional = CryptKey<String?>(key: "optional")
            try expectEqual(try store.createIfAbsent(nil, for: optional), true, "createIfAbsent(nil, for: optional)")
            try expectEqual(try store.createIfAbsent("value", for: optional), false, "createIfAbsent over a stored nil")
            guard let kept = try store.get(optional) else {
                throw ConformanceViolation(
                    "get(optional) after createIfAbsent(nil): expected a stored nil, got no value")
            }
            try expectEqual(kept, nil, "get(optional) of the stored nil")
            try store.set("text", for: secretToken)
            let number = CryptKey<Int>(key: secretToken.key)
            try expectEqual(
                try store.createIfAbsent(1, for: number), false, "createIfAbsent(auth.access as Int) over a String")
            for accessibility in CryptAccessibility.allCases {
                let other = CryptKey<String>(key: secretToken.key, accessibility: accessibility)
                try expectEqual(
                    try store.createIfAbsent("other", for: other), false,
                    "createIfAbsent(auth.access, \(accessibility)) over one \(secretToken.accessibility)")
            }
            try expectEqual(try store.get(secretToken), "text", "get(auth.access) after createIfAbsent")
        },
        ConformanceCheck("createIfAbsent refuses what set refuses", needs: [.creationIfAbsent]) { store in
            for name in SecretSamples.invalidNames {
                try expectSecretError(.invalidKey, .set, name, "createIfAbsent(\(name.escaped))") {
                    try store.createIfAbsent("value", for: CryptKey(key: name))
                }
            }
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            let error = try expectSecretError(.unencodable, .set, key.key, "createIfAbsent(refusing)") {
                try store.createIfAbsent(SecretSamples.Refusing(text: marker), for: key)
            }
            try expectNoMarker(in: error, "the error of createIfAbsent(refusing), .unencodable,")
            try expectEqual(try store.contains(key), false, "contains(refusing) after the refused createIfAbsent")
        },
        ConformanceCheck("createIfAbsent refuses a value of more than 16 MiB", needs: [.creationIfAbsent]) { store in
            let key = CryptKey<Data>(key: "large")
            try expectSecretError(.tooLarge, .set, key.key, "createIfAbsent(large) of more than 16 MiB") {
                try store.createIfAbsent(SecretSamples.tooLarge, for: key)
            }
            try expectEqual(try store.contains(key), false, "contains(large) after the refused createIfAbsent")
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
            guard let stored = try store.get(key) else {
                throw ConformanceViolation("get(optional) after set(nil): expected a stored nil, got no value")
            }
            try expectEqual(stored, nil, "get")
            try expectEqual(try store.contains(key), true, "contains(optional) of a stored nil")
        },
        ConformanceCheck("a value is kept encoded: an object is not shared, and what it does not encode is lost") {
            store in
            let key = CryptKey<SecretSamples.Partial>(key: "partial")
            let value = SecretSamples.Partial(text: "kept", note: "lost")
            try store.set(value, for: key)
            for call in ["the first get(partial)", "the second get(partial)"] {
                guard let stored = try store.get(key) else {
                    throw ConformanceViolation("\(call) after set(partial): expected a value, got nil")
                }
                try expect(stored !== value, "\(call): expected another object than the one that was set")
                try expectEqual(stored.text, "kept", "what is encoded of \(call)")
                try expectEqual(stored.note, "", "what is not encoded of \(call)")
            }
        },
        ConformanceCheck("a value of one megabyte round-trips") { store in
            try roundTrip(Data.patterned(count: 1_000_000), in: store)
        },
        ConformanceCheck("a hundred secrets stay distinct") { store in
            for number in 0..<100 { try store.set(number, for: CryptKey(key: "number.\(number)")) }
            for number in stride(from: 0, to: 100, by: 3) { try store.delete(CryptKey<Int>(key: "number.\(number)")) }
            for number in 0..<100 {
                let expected = number % 3 == 0 ? nil : number
                try expectEqual(
                    try store.get(CryptKey<Int>(key: "number.\(number)")), expected, "get(number.\(number))")
            }
        },
    ]

    private static func roundTrip<Value: Codable & Sendable & Equatable>(
        _ value: Value, in store: any CryptStoring
    ) throws {
        let key = CryptKey<Value>(key: "value")
        try store.set(value, for: key)
        let stored = try store.get(key)
        let isSame = stored == value
        try expect(
            isSame, "get(value) after set(\(shown(value))): expected the same, got \(stored.map { shown($0) } ?? "nil")"
        )
    }
}
