import Foundation

/// Types with unusual `encode(to:)` implementations.
enum Odd {
    struct Key: CodingKey, ExpressibleByStringLiteral {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringLiteral value: String) { stringValue = value }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Encodes itself with a closure.
    struct Custom: Encodable, @unchecked Sendable {
        let body: (any Encoder) throws -> Void
        func encode(to encoder: any Encoder) throws { try body(encoder) }
    }

    struct Refusal: Error {}

    static let nothing = Custom { _ in }
    static let failing = Custom { _ in throw Refusal() }

    class Base: Codable {
        var name = "base"
        init() {}
    }

    final class Derived: Base {
        var extra = 1
        enum CodingKeys: CodingKey { case extra }
        override init() { super.init() }
        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            extra = try container.decode(Int.self, forKey: .extra)
            try super.init(from: container.superDecoder())
        }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try super.encode(to: container.superEncoder())
            try container.encode(extra, forKey: .extra)
        }
    }

    final class Sharing: Base {
        var extra = 2
        enum CodingKeys: CodingKey { case extra }
        override init() { super.init() }
        required init(from decoder: any Decoder) throws {
            extra = try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .extra)
            try super.init(from: decoder)
        }
        override func encode(to encoder: any Encoder) throws {
            try super.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(extra, forKey: .extra)
        }
    }

    final class Keeper: @unchecked Sendable {
        var keyed: KeyedEncodingContainer<Key>?
        var encoder: (any Encoder)?
        var decoder: (any Decoder)?
    }

    /// Expected trees where Foundation's encoder traps.
    static let expected = [
        "a failure that was caught": #"{"a":1,"c":[1,2],"d":3}"#,
        "a failing single value that was caught": #""instead""#,
        "a failing single value with containers that was caught": #"{"x":4}"#,
        "a failing second value of a key that was caught": #"{"a":1,"b":2}"#,
    ]

    /// Fails after it has written entries and asked for a nested container.
    private static let broken = Custom { encoder in
        var map = encoder.container(keyedBy: Key.self)
        try map.encode(1, forKey: "x")
        var list = map.nestedUnkeyedContainer(forKey: "y")
        try list.encode(2)
        throw Refusal()
    }

    /// Values by name; each is encoded by this module and by Foundation, and the results must agree.
    static let all: [(String, Custom)] = [
        (
            "interleaved maps",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                var first = outer.nestedContainer(keyedBy: Key.self, forKey: "first")
                var second = outer.nestedContainer(keyedBy: Key.self, forKey: "second")
                for index in 0..<30 {
                    try first.encode(index, forKey: Key(stringValue: "a\(index)"))
                    try second.encode([index], forKey: Key(stringValue: "b\(index)"))
                    try outer.encode(index, forKey: Key(stringValue: "c\(index)"))
                }
            }
        ),
        (
            "interleaved arrays",
            Custom { encoder in
                var outer = encoder.unkeyedContainer()
                var first = outer.nestedUnkeyedContainer()
                var second = outer.nestedUnkeyedContainer()
                try outer.encode("between")
                var third = outer.nestedContainer(keyedBy: Key.self)
                for index in 0..<40 {
                    try second.encode(index)
                    try first.encode("text \(index)")
                    try third.encode(index, forKey: "last")
                }
                try first.encodeNil()
                try outer.encode(outer.count)
            }
        ),
        (
            "nested containers left empty",
            Custom { encoder in
                var outer = encoder.unkeyedContainer()
                _ = outer.nestedUnkeyedContainer()
                _ = outer.nestedContainer(keyedBy: Key.self)
                _ = outer.superEncoder()
            }
        ),
        (
            "super encoders filled late",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                let above = outer.superEncoder()
                let other = outer.superEncoder(forKey: "other")
                try outer.encode(1, forKey: "own")
                var single = other.singleValueContainer()
                try single.encode("text")
                var keyed = above.container(keyedBy: Key.self)
                try keyed.encode([1: true], forKey: "deep")
            }
        ),
        (
            "a nested container asked for twice",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                var first = outer.nestedContainer(keyedBy: Key.self, forKey: "same")
                try first.encode(1, forKey: "a")
                try outer.encode(0, forKey: "between")
                var second = outer.nestedContainer(keyedBy: Key.self, forKey: "same")
                try second.encode(2, forKey: "b")
                try first.encode(3, forKey: "c")
            }
        ),
        (
            "a map that gets more entries after it was encoded",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode(["a": 1], forKey: "map")
                try outer.encode(0, forKey: "between")
                var nested = outer.nestedContainer(keyedBy: Key.self, forKey: "map")
                try nested.encode(2, forKey: "b")
                try outer.encode(1, forKey: "after")
                try nested.encode([3], forKey: "a")
                var again = outer.nestedContainer(keyedBy: Key.self, forKey: "map")
                try again.encode(4, forKey: "c")
            }
        ),
        (
            "a large map that gets more entries after it was encoded",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode(
                    Dictionary(uniqueKeysWithValues: (0..<40).map { ("\($0)", $0) }), forKey: "map")
                var nested = outer.nestedContainer(keyedBy: Key.self, forKey: "map")
                for index in 20..<70 { try nested.encode(-index, forKey: Key(stringValue: "\(index)")) }
            }
        ),
        (
            "a list that gets more elements after it was encoded",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode(Array(0..<30), forKey: "long")
                try outer.encode(["x"], forKey: "short")
                try outer.encode([Int](), forKey: "empty")
                for key in ["long", "short", "empty"] as [Key] {
                    var nested = outer.nestedUnkeyedContainer(forKey: key)
                    try nested.encode(nested.count)
                    var deep = nested.nestedContainer(keyedBy: Key.self)
                    try deep.encode([1], forKey: "list")
                    var list = deep.nestedUnkeyedContainer(forKey: "list")
                    try list.encode(2)
                }
            }
        ),
        (
            "containers asked for after a value was encoded, and left alone",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode(["a": 1], forKey: "map")
                try outer.encode([1], forKey: "list")
                _ = outer.nestedContainer(keyedBy: Key.self, forKey: "map")
                _ = outer.nestedUnkeyedContainer(forKey: "list")
            }
        ),
        (
            "a single value of a super encoder for a key that has a container",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                _ = outer.nestedContainer(keyedBy: Key.self, forKey: "empty")
                var filled = outer.nestedUnkeyedContainer(forKey: "filled")
                try filled.encode([1, 2])
                _ = filled.nestedContainer(keyedBy: Key.self)
                try outer.encode([3], forKey: "encoded")
                for key in ["empty", "filled", "encoded"] as [Key] {
                    var single = outer.superEncoder(forKey: key).singleValueContainer()
                    try single.encode(42)
                }
                var null = outer.superEncoder(forKey: "null").singleValueContainer()
                try null.encodeNil()
            }
        ),
        (
            "a key written twice",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode("a long text that goes", forKey: "key")
                _ = outer.nestedUnkeyedContainer(forKey: "array")
                try outer.encode(1, forKey: "other")
                try outer.encode([1, 2], forKey: "key")
                try outer.encode(["x": 1], forKey: "array")
            }
        ),
        (
            "many keys written twice",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                for round in 0..<3 {
                    for index in 0..<50 {
                        let key = Key(stringValue: "\(index)")
                        if index % 7 == 0 {
                            var nested = outer.nestedUnkeyedContainer(forKey: key)
                            try nested.encode(round)
                        } else {
                            try outer.encode(round * index, forKey: key)
                        }
                    }
                }
            }
        ),
        (
            "a container asked for twice",
            Custom { encoder in
                var first = encoder.container(keyedBy: Key.self)
                try first.encode(1, forKey: "a")
                var second = encoder.container(keyedBy: Key.self)
                try second.encode(2, forKey: "b")
                try first.encode(3, forKey: "c")
            }
        ),
        (
            "values that write nothing",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode(nothing, forKey: "nothing")
                try outer.encode([nothing, nothing], forKey: "array")
            }
        ),
        (
            "a single value that writes nothing",
            Custom { encoder in
                var single = encoder.singleValueContainer()
                try single.encode(nothing)
            }
        ),
        (
            "a failure that was caught",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode(1, forKey: "a")
                do { try outer.encode([[failing]], forKey: "b") } catch is Refusal {}
                var array = outer.nestedUnkeyedContainer(forKey: "c")
                try array.encode(1)
                do { try array.encode(["x": failing]) } catch is Refusal {}
                try array.encode(2)
                try outer.encode(3, forKey: "d")
            }
        ),
        (
            "a failing single value that was caught",
            Custom { encoder in
                var single = encoder.singleValueContainer()
                do { try single.encode([failing]) } catch is Refusal {}
                try single.encode("instead")
            }
        ),
        (
            "a failing single value with containers that was caught",
            Custom { encoder in
                var single = encoder.singleValueContainer()
                do { try single.encode(broken) } catch is Refusal {}
                try single.encode(["x": 4])
            }
        ),
        (
            "a failing second value of a key that was caught",
            Custom { encoder in
                var outer = encoder.container(keyedBy: Key.self)
                try outer.encode(1, forKey: "a")
                do { try outer.encode(broken, forKey: "a") } catch is Refusal {}
                try outer.encode(2, forKey: "b")
            }
        ),
        (
            "a single value within a single value",
            Custom { encoder in
                var single = encoder.singleValueContainer()
                try single.encode(
                    Custom { encoder in
                        var single = encoder.singleValueContainer()
                        try single.encode(["deep": [1]])
                    })
            }
        ),
        (
            "a container that outlives its value",
            Custom { encoder in
                let keeper = Keeper()
                var outer = encoder.unkeyedContainer()
                try outer.encode(
                    Custom { encoder in
                        var inner = encoder.container(keyedBy: Key.self)
                        try inner.encode(1, forKey: "kept")
                        keeper.keyed = inner
                    })
                try keeper.keyed?.encode(2, forKey: "late")
                var late = keeper.keyed?.nestedUnkeyedContainer(forKey: "later")
                try late?.encode(1)
                try outer.encode(2)
            }
        ),
        (
            "every width",
            Custom { encoder in
                var outer = encoder.unkeyedContainer()
                try outer.encode(Int8(-1)); try outer.encode(Int16(-300)); try outer.encode(Int32(-70_000))
                try outer.encode(Int64(-5_000_000_000)); try outer.encode(UInt(7)); try outer.encode(UInt8(200))
                try outer.encode(UInt16(300)); try outer.encode(UInt32(70_000)); try outer.encode(UInt64.max)
                try outer.encode(1.5); try outer.encode(Float(0.5)); try outer.encode(true); try outer.encode("x")
                try outer.encode(Int128(1)); try outer.encode(UInt128(2)); try outer.encodeNil()
                var keyed = outer.nestedContainer(keyedBy: Key.self)
                try keyed.encode(Int8(-1), forKey: "a"); try keyed.encode(Int16(-300), forKey: "b")
                try keyed.encode(Int32(-70_000), forKey: "c"); try keyed.encode(Int64(-5_000_000_000), forKey: "d")
                try keyed.encode(UInt(7), forKey: "e"); try keyed.encode(UInt8(200), forKey: "f")
                try keyed.encode(UInt16(300), forKey: "g"); try keyed.encode(UInt32(70_000), forKey: "h")
                try keyed.encode(UInt64.max, forKey: "i"); try keyed.encode(1.5, forKey: "j")
                try keyed.encode(Float(0.5), forKey: "k"); try keyed.encode(true, forKey: "l")
                try keyed.encode("x", forKey: "m"); try keyed.encodeNil(forKey: "n")
                try keyed.encode(Int128(1), forKey: "o"); try keyed.encode(UInt128(2), forKey: "p")
                try keyed.encodeIfPresent(nil as Int?, forKey: "q"); try keyed.encodeIfPresent("y", forKey: "r")
                for value: any Encodable in [
                    Int8(1), Int16(2), Int32(3), Int64(4), UInt(5), UInt8(6), UInt16(7), UInt32(8), UInt64(9), 1.5,
                    Float(2.5), true, "text", Int128(10), UInt128(11),
                ] {
                    try outer.encode(
                        Custom { encoder in
                            var single = encoder.singleValueContainer()
                            try single.encode(value)
                        })
                }
            }
        ),
    ]
}
