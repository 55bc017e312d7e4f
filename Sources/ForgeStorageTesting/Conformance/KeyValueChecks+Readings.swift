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
                for name in ["\(sample.name) forwards", "\(sample.name) backwards"] { try sample.set(store, name) }
                for (forwards, backwards) in zip(TypeReading.all, TypeReading.all.reversed()) {
                    for (reading, order) in [(forwards, "forwards"), (backwards, "backwards")] {
                        let name = "\(sample.name) \(order)"
                        let fresh = "\(sample.name) \(order) \(reading.name)"
                        try sample.set(model, fresh)
                        let (found, expected) = (reading.read(store, name), reading.read(model, fresh))
                        if expected == "nil", found != "nil", let setConverted = sample.setConverted {
                            // A store over user defaults converts between Boolean and number, as Foundation does.
                            try setConverted(model, fresh)
                            try expectEqual(found, reading.read(model, fresh), "\(name), converted, as \(reading.name)")
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
private struct TypeSample: Sendable {
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

enum CheckBoxes: Codable, Sendable {
    case none
    case two(CheckBox, CheckBox)
}
