import ForgeCoding
import ForgeKVStore
import Foundation

extension ConformanceChecks {
    /// Reading changes neither the store nor a value that another reader has.
    static let keyValueReadings: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("reading as another type changes nothing") { store in
            for sample in TypeSample.all {
                for reading in TypeReading.all {
                    let name = "\(sample.name) as \(reading.name)"
                    try sample.set(store, name)
                    let first = reading.read(store, name)
                    try expectEqual(reading.read(store, name), first, "the second reading of \(name)")
                    try expectEqual(sample.read(store, name), sample.text, "the value of \(name) afterwards")
                }
            }
        },
        ConformanceCheck("a value reads as another type as it does in memory, regardless of earlier reads") { store in
            let model = InMemoryKVStore()
            for sample in TypeSample.all {
                // A separate name for each reading, so that there are no earlier ones.
                func expected(_ reading: TypeReading) throws -> String {
                    try sample.set(model, "\(sample.name) \(reading.name)")
                    return reading.read(model, "\(sample.name) \(reading.name)")
                }
                let readings = try TypeReading.all.map { (reading: $0, expected: try expected($0)) }
                for (order, readings) in [("forwards", readings), ("backwards", readings.reversed())] {
                    let name = "\(sample.name) \(order)"
                    try sample.set(store, name)
                    for (reading, expected) in readings {
                        let found = reading.read(store, name)
                        if expected == "nil", found != "nil", let setConverted = sample.setConverted {
                            // A store over user defaults converts between Boolean and number, as Foundation does.
                            let converted = "\(name) \(reading.name)"
                            try setConverted(model, converted)
                            try expectEqual(
                                found, reading.read(model, converted), "\(name), converted, as \(reading.name)")
                        } else {
                            try expectEqual(found, expected, "\(name) as \(reading.name)")
                        }
                    }
                }
            }
        },
        ConformanceCheck("an object inside a value is not shared between readers") { store in
            func check<Value: Codable & Sendable>(
                _ name: String, _ value: Value, _ box: (Value) -> CheckBox?
            ) throws {
                let key = KVKey<Value>(name)
                try store.set(key, value: value)
                box(value)?.number = -1
                for time in ["first", "second", "third"] {
                    let found = store.get(key).flatMap(box)
                    try expectEqual(found?.number, 7, "\(name): what the \(time) reader finds")
                    found?.number = -1
                }
            }
            try check("struct", CheckHolder(box: CheckBox(7))) { $0.box }
            try check("optional", CheckHolder(box: CheckBox(7)) as CheckHolder?) { $0?.box }
            try check("array", [CheckHolder(box: CheckBox(7))]) { $0.first?.box }
            try check("dictionary", ["a": CheckBox(7)]) { $0["a"] }
            try check("struct with a mirror of its own", CheckHidingHolder(box: CheckBox(7))) { $0.box }
            try check("enum", CheckBoxes.two(CheckBox(6), CheckBox(7))) { boxes in
                guard case .two(_, let box) = boxes else { return nil }
                return box
            }
        },
    ]
}

extension ConformanceChecks {
    /// The same promises for values on disk.
    static let keyValueReadingsAfterReopening: [ConformanceCheck<KeyValueStoreLocation<any KVStoring>>] = [
        ConformanceCheck("a value reads as another type after reopening as it did before, and is not changed") {
            place in
            let names = TypeSample.all.flatMap { sample in TypeReading.all.map { "\(sample.name) as \($0.name)" } }
            func readings(of store: any KVStoring) -> [String] {
                TypeSample.all.flatMap { sample in
                    TypeReading.all.map { $0.read(store, "\(sample.name) as \($0.name)") }
                }
            }
            let before = try {
                let store = try place.open()
                for sample in TypeSample.all {
                    for reading in TypeReading.all { try sample.set(store, "\(sample.name) as \(reading.name)") }
                }
                return readings(of: store)
            }()
            for time in ["first", "second"] {
                let store = try place.open()
                for (name, (before, after)) in zip(names, zip(before, readings(of: store))) {
                    try expectEqual(after, before, "\(name) after the \(time) reopening")
                }
            }
            let store = try place.open()
            for sample in TypeSample.all {
                for reading in TypeReading.all {
                    let name = "\(sample.name) as \(reading.name)"
                    try expectEqual(sample.read(store, name), sample.text, "the value of \(name)")
                }
            }
        }
    ]
}

/// A value of a type, to be read as other types.
struct TypeSample: Sendable {
    let name: String
    let text: String
    let set: @Sendable (any KVStoring, _ name: String) throws -> Void
    let read: @Sendable (any KVStoring, _ name: String) -> String

    /// Stores the number that a Boolean is converted to, or the Boolean of a number.
    let setConverted: (@Sendable (any KVStoring, _ name: String) throws -> Void)?

    init<Value: Codable & Sendable>(_ value: Value) { self.init(value, or: Bool?.none) }

    init<Value: Codable & Sendable, Other: Codable & Sendable>(_ value: Value, or other: Other?) {
        text = "\(value)"
        name = "\(Value.self) \(value)"
        set = { try $0.set(KVKey($1), value: value) }
        read = { store, name in TypeReading(Value.self).read(store, name) }
        if let other {
            setConverted = { store, name in try store.set(KVKey(name), value: other) }
        } else {
            setConverted = nil
        }
    }

    /// Numbers that are exact in every type, numbers that some types round or refuse, and non-numbers.
    static let all = [
        TypeSample(true, or: 1), TypeSample(0, or: false), TypeSample(-7, or: true), TypeSample(Int.max, or: true),
        TypeSample(UInt64.max), TypeSample(UInt8(200), or: true), TypeSample(0.1, or: true), TypeSample(-0.0),
        TypeSample(2.0, or: true), TypeSample(1e300, or: true), TypeSample(Float(0.1), or: true),
        TypeSample(Date(timeIntervalSinceReferenceDate: 700_000_000.25)), TypeSample("7"), TypeSample(Decimal(3)),
        TypeSample([1, 2]),
    ]
}

/// A type to read values as.
private struct TypeReading: Sendable {
    let name: String

    /// The value as text; `nil` for none.
    let read: @Sendable (any KVStoring, _ name: String) -> String

    init<Value: Codable & Sendable>(_ type: Value.Type) {
        name = "\(type)"
        read = { store, name in store.get(KVKey<Value>(name)).map { "\($0)" } ?? "nil" }
    }

    static let all = [
        TypeReading(Bool.self), TypeReading(Int.self), TypeReading(Int8.self), TypeReading(UInt64.self),
        TypeReading(Float.self), TypeReading(Double.self), TypeReading(Int?.self), TypeReading(Date.self),
        TypeReading(Decimal.self), TypeReading(String.self), TypeReading([Double].self),
    ]
}

/// A mutable object.
final class CheckBox: Codable, @unchecked Sendable {
    // Invariant of the unchecked conformance: each object is used by one thread only.
    var number: Int

    init(_ number: Int) { self.number = number }
}

struct CheckHolder: Codable, Sendable {
    var title = "holder"
    var box: CheckBox
}

/// A value whose mirror does not show the object.
struct CheckHidingHolder: Codable, Sendable, CustomReflectable {
    var box: CheckBox

    var customMirror: Mirror {
        let shown: [Mirror.Child] = [(label: "title", value: "holder")]
        return Mirror(self, children: shown, displayStyle: .struct)
    }
}

enum CheckBoxes: Codable, Sendable {
    case none
    case two(CheckBox, CheckBox)
}

extension ConformanceChecks {
    static let keyValueErrors: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("read returns nil for an absent key and the value for a present one") { store in
            let key = KVKey<Int>("a")
            try expectEqual(try store.read(key), nil, "read of an absent key")
            try store.set(key, value: 1)
            try expectEqual(try store.read(key), 1, "read")
        },
        ConformanceCheck("read throws for a value of another type", needs: [.typedReads]) { store in
            try store.set(KVKey<String>("a"), value: "a secret value")
            let error = try await expectError(KVStoreError.self, "read") { try store.read(KVKey<Int>("a")) }
            try expectEqual(error.code, .undecodable, "code")
            try expectEqual(error.operation, .read, "operation")
            try expectEqual(error.key, "a", "key")
            try expect(!"\(error)".contains("secret"), "the error shows the value")
            try expect(!"\(error)".contains("\n"), "the error has more than one line")
            try expectEqual(try store.read(KVKey<String>("a")), "a secret value", "the value")
        },
        ConformanceCheck("read distinguishes a stored nil from an absent key") { store in
            let key = KVKey<String?>("a")
            try store.set(key, value: nil)
            try expect(try store.read(key) == .some(.none), "read does not give the stored nil")
            if let found = try store.read(KVKey<String?>("b")) {
                throw ConformanceViolation(
                    "read(b as String?) of an absent key: expected none, got \(String(describing: Optional(found)))")
            }
        },
        ConformanceCheck("read refuses a name that is too long", needs: [.typedReads]) { store in
            let key = KVKey<Int>(String(repeating: "x", count: 1025))
            let error = try await expectError(KVStoreError.self, "read") { try store.read(key) }
            try expectEqual(error.code, .invalidKey, "code")
            try expectEqual(error.operation, .read, "the operation of read")
            let removal = try await expectError(KVStoreError.self, "remove") { try store.remove(key) }
            try expectEqual(removal.code, .invalidKey, "code")
            try expectEqual(removal.operation, .remove, "the operation of remove")
        },
        ConformanceCheck("the error for a value that cannot be encoded does not show it") { store in
            let error = try await expectError(KVStoreError.self, "set") {
                try store.set(KVKey<CheckUnencodable>("a"), value: CheckUnencodable())
            }
            try expectEqual(error.code, .unencodable, "code")
            try expectEqual(error.key, "a", "key")
            try expect(!"\(error)".contains("secret"), "the error shows the value")
            try expect(!store.contains(KVKey<Int>("a")), "there is a value now")
        },
    ]

    static let keyValueRawValues: [ConformanceCheck<any KVRawStoring>] = [
        ConformanceCheck("keys lists every name once") { store in
            try expectEqual(try store.keys(), [], "keys of an empty store")
            for name in hostileNames { try store.set(KVKey<Int>(name), value: 1) }
            try store.set(KVKey<Int?>("nil"), value: nil)
            let names = try store.keys().map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            let expected = (hostileNames + ["nil"]).map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            let missing = Set(expected).subtracting(names).map { String(decoding: $0.prefix(80), as: UTF8.self) }
            try expect(
                names == expected,
                "keys(): expected \(expected.count) names, got \(names.count), without \(missing.sorted())")
        },
        ConformanceCheck("keys lists every name while values are replaced") { store in
            // More names than a store may look through in one piece.
            let names = (0..<700).map { "\($0)" }
            for name in names { try store.setRawValue([0], named: name) }
            let isOver = Flag()
            try await racing(threads: 2) { thread in
                guard thread == 0 else {
                    var call = 0
                    while !isOver.isSet {
                        try store.setRawValue([1], named: names[call % 10])
                        call += 1
                        if call.isMultiple(of: 4) { interruptOthers() }
                    }
                    return
                }
                defer { isOver.set() }
                for _ in 0..<6 {
                    let found = try store.keys()
                    try expect(
                        found.count == names.count && Set(found) == Set(names),
                        "keys() beside setRawValue of ten of them: expected \(names.count) names, got \(found.count)")
                }
            }
        },
        ConformanceCheck("a raw value is the same after it was read as any type") { store in
            for sample in TypeSample.all {
                try sample.set(store, "sample")
                guard let bytes = try store.rawValue(named: "sample") else {
                    throw ConformanceViolation("rawValue(named: sample) after set of \(sample.name): got nil")
                }
                for reading in TypeReading.all {
                    let name = "raw \(sample.name) as \(reading.name)"
                    try store.setRawValue(bytes, named: name)
                    let found = reading.read(store, name)
                    try expectEqual(
                        try store.rawValue(named: name), bytes,
                        "rawValue(named: \(name)) after get, which returned \(found)")
                }
            }
        },
        ConformanceCheck("keys(prefix:) compares bytes") { store in
            let names = ["", "a", "A", "a.b", "a.b.c", "b", "e\u{301}", "\u{E9}", "e"]
            for name in names { try store.set(KVKey<Int>(name), value: 1) }
            for prefix in ["", "a", "a.b", "a.b.c.d", "e", "\u{E9}", "e\u{301}"] {
                let expected = names.filter { Array($0.utf8).starts(with: Array(prefix.utf8)) }
                let found = try store.keys(prefix: prefix)
                try expectEqual(
                    found.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) },
                    expected.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) },
                    "keys(prefix: \(KVKey<Int>(prefix)))")
            }
        },
        ConformanceCheck("keys omits removed keys") { store in
            for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
            try store.remove(KVKey<Int>("b"))
            try expectEqual(try store.keys().sorted(), ["a", "c"], "keys")
            try store.removeAll()
            try expectEqual(try store.keys(), [], "keys after removeAll")
        },
        ConformanceCheck("a raw value decodes to the value that was set") { store in
            try store.set(KVKey<[String: Int]>("a"), value: ["one": 1])
            guard let bytes = try store.rawValue(named: "a") else { throw ConformanceViolation("no raw value") }
            try expectEqual(try ValueCoder().decode([String: Int].self, from: bytes), ["one": 1], "decoded")
            try expect(try store.rawValue(named: "b") == nil, "an absent key has a raw value")
        },
        ConformanceCheck("a raw value can be stored under another name") { store in
            for (index, name) in ["int", "text", "struct", "nil"].enumerated() {
                switch index {
                case 0: try store.set(KVKey<Int>(name), value: -5)
                case 1: try store.set(KVKey<String>(name), value: "\u{1}")
                case 2: try store.set(KVKey<CheckProfile>(name), value: CheckProfile())
                default: try store.set(KVKey<Int?>(name), value: nil)
                }
                guard let bytes = try store.rawValue(named: name) else {
                    throw ConformanceViolation("\(name) has no raw value")
                }
                try store.setRawValue(bytes, named: "copy of \(name)")
            }
            try expectEqual(store.get(KVKey<Int>("copy of int")), -5, "int")
            try expectEqual(store.get(KVKey<String>("copy of text")), "\u{1}", "text")
            try expectEqual(store.get(KVKey<CheckProfile>("copy of struct")), CheckProfile(), "struct")
            try expect(store.get(KVKey<Int?>("copy of nil")) == .some(.none), "nil")
        },
        ConformanceCheck(
            "a raw value that is not a valid encoding is undecodable and is kept", needs: [.typedReads]
        ) {
            store in
            let bytes: [UInt8] = [0xFF, 0, 1, 2]
            try store.setRawValue(bytes, named: "a")
            try expectEqual(
                store.contains(KVKey<Int>("a")), true, "contains(a) after setRawValue(ff 00 01 02, named: a)")
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get")
            let error = try await expectError(KVStoreError.self, "read") { try store.read(KVKey<Int>("a")) }
            try expectEqual(error.code, .undecodable, "code")
            try expectEqual(try store.rawValue(named: "a"), bytes, "raw value")
            try store.set(KVKey<Int>("a"), value: 1)
            try expectEqual(store.get(KVKey<Int>("a")), 1, "get after set")
        },
        ConformanceCheck("an empty raw value is present") { store in
            try store.setRawValue([], named: "a")
            try expectEqual(try store.rawValue(named: "a"), [], "rawValue(named: a) after setRawValue([], named: a)")
            try expect(store.contains(KVKey<Int>("a")), "contains(a) after setRawValue([], named: a): expected true")
            try expectEqual(try store.keys(), ["a"], "keys() after setRawValue([], named: a)")
        },
        ConformanceCheck("setting a raw value replaces a value that was read before") { store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            try expectEqual(store.get(key), 1, "get")
            try store.setRawValue(try ValueCoder().encode(2), named: "a")
            try expectEqual(store.get(key), 2, "get after setRawValue")
        },
        ConformanceCheck("removeValue removes a key by its name") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<Int>("b"), value: 1)
            try store.removeValue(named: "a")
            try store.removeValue(named: "never there")
            try expectEqual(try store.keys(), ["b"], "keys")
        },
        ConformanceCheck("removeValue keeps names that begin with the removed one, in either case") { store in
            for name in ["a", "a2", "a/b", "A", "aa"] { try store.set(KVKey<Int>(name), value: 1) }
            try store.removeValue(named: "a")
            try expectEqual(Set(try store.keys()), ["a2", "a/b", "A", "aa"], "keys() after removeValue(named: a)")
        },
        ConformanceCheck("raw values refuse a name that is too long") { store in
            let name = String(repeating: "x", count: 1025)
            let calls: [(call: String, operation: KVStoreError.Operation, body: () throws -> Void)] = [
                ("rawValue", .read, { _ = try store.rawValue(named: name) }),
                ("setRawValue", .set, { try store.setRawValue([], named: name) }),
                ("removeValue", .remove, { try store.removeValue(named: name) }),
            ]
            for (call, operation, body) in calls {
                let error = try await expectError(KVStoreError.self, "\(call)(named: 1,025 bytes)") { try body() }
                try expectEqual(error.code, .invalidKey, "the code of \(call)(named: 1,025 bytes)")
                try expectEqual(error.operation, operation, "the operation of \(call)(named: 1,025 bytes)")
                try expectEqual(error.key, name, "the key of \(call)(named: 1,025 bytes)")
            }
        },
    ]
}
