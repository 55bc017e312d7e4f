import ForgeCrypt
import Foundation

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
            try expect(try store.contains(key), "contains")
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
