import Foundation
import Testing

@testable import ForgeCoding

extension CodedValue {
    /// The tree with sorted map keys, and whole doubles as integers.
    var normalized: CodedValue {
        switch self {
        case .array(let elements): .array(elements.map(\.normalized))
        case .map(let entries):
            .map(entries.map { Entry($0.key, $0.value.normalized) }.sorted { "\($0.key)" < "\($1.key)" })
        case .float(let value): .double(Double(value))
        default: self
        }
    }
}

@Suite("Encoding") struct EncodingTests {
    @Test("unusual `encode(to:)` implementations encode as with JSONEncoder", arguments: Odd.all.indices)
    func likeJSONEncoder(_ index: Int) throws {
        let (name, value) = Odd.all[index]
        let own = try CodedValue(decoding: BinaryEncoder().encode(value))
        let array = try CodedValue(decoding: BinaryEncoder().encode([value, value]))
        let reference = try Odd.expected[name] ?? String(decoding: JSONEncoder().encode(value), as: UTF8.self)
        #expect(try own.normalized == CodedValue(json: reference).normalized, "\(name)")
        #expect(try array.normalized == CodedValue(json: "[\(reference), \(reference)]").normalized, "\(name)")
    }

    @Test("a top-level value that writes nothing is refused")
    func nothingAtTheTop() {
        #expect(throws: EncodingError.self) { try BinaryEncoder().encode(Odd.nothing) }
        #expect(throws: Odd.Refusal.self) { try BinaryEncoder().encode(["k": [Odd.failing]]) }
    }

    @Test("subclasses round-trip through super and shared containers")
    func classes() throws {
        let derived = Odd.Derived()
        derived.extra = 5
        derived.name = "changed"
        let copy = try BinaryDecoder().decode(Odd.Derived.self, from: BinaryEncoder().encode(derived))
        #expect(copy.extra == 5 && copy.name == "changed")
        let sharing = Odd.Sharing()
        sharing.extra = 6
        let shared = try BinaryDecoder().decode([Odd.Sharing].self, from: BinaryEncoder().encode([sharing, sharing]))
        #expect(shared.map(\.extra) == [6, 6] && shared.map(\.name) == ["base", "base"])
    }

    @Test("lengths are definite and heads have the shortest form")
    func canonicalForm() throws {
        #expect(
            try BinaryEncoder().encode(["a": [1, 24, -25, 256, 65536]]).hex
                == "a1616185011818381819010 01a00010000".bare)
        #expect(try BinaryEncoder().encode(Array(repeating: true, count: 24)).hex.hasPrefix("9818f5"))
        #expect(try BinaryEncoder().encode(Array(repeating: true, count: 256)).hex.hasPrefix("990100f5"))
        #expect(try BinaryEncoder().encode(Array(repeating: true, count: 65536)).hex.hasPrefix("9a00010000f5"))
        let map = Dictionary(uniqueKeysWithValues: (0..<256).map { ("\($0)", Odd.Base()) })
        #expect(try BinaryEncoder().encode(map).hex.hasPrefix("b90100"))
    }

    @Test("nesting beyond the limit is refused at its coding path")
    func depth() throws {
        struct Chain: Codable {
            var next: [Chain]
            init(_ depth: Int) { next = depth > 0 ? [Chain(depth - 1)] : [] }
        }
        // Each link nests a map and an array.
        let deepest = try BinaryEncoder().encode(Chain(31))
        _ = try BinaryDecoder().decode(Chain.self, from: deepest)
        _ = try CodedValue(decoding: deepest)
        #expect(throws: EncodingError.self) { try BinaryEncoder().encode(Chain(32)) }
        var wider = BinaryEncoder()
        wider.maximumDepth = 66
        let deeper = try wider.encode(Chain(32))
        #expect(throws: DecodingError.self) { try BinaryDecoder().decode(Chain.self, from: deeper) }
        #expect(throws: CodingFailure.self) { try CodedValue(decoding: deeper) }
        var shallow = BinaryEncoder()
        shallow.maximumDepth = 1
        for value: any Encodable in [
            [[1]], [[1.5]], [["x"]], [[Float(1)]], [Date()], [UUID()], [URL(filePath: "/")], [Decimal(1)], [Int128.max],
        ] {
            #expect(throws: EncodingError.self) { try shallow.encode(value) }
        }
        _ = try shallow.encode([1, 2])
        shallow.maximumDepth = 0
        #expect(throws: EncodingError.self) { try shallow.encode([1]) }
        #expect(throws: EncodingError.self) { try shallow.encode(Date()) }
        #expect(throws: EncodingError.self) { try shallow.encode(UInt128.max) }
        #expect(throws: EncodingError.self) { try shallow.encode(Odd.Base()) }
        #expect(throws: EncodingError.self) {
            try shallow.encode(
                Odd.Custom { encoder in
                    var single = encoder.singleValueContainer()
                    try single.encode(UInt128.max)
                })
        }
    }

    @Test("a super encoder adds to what its key has already")
    func superAfterValue() throws {
        func tree(_ body: @escaping (inout KeyedEncodingContainer<Odd.Key>) throws -> Void) throws -> String {
            let value = Odd.Custom { encoder in
                var outer = encoder.container(keyedBy: Odd.Key.self)
                try body(&outer)
            }
            return try CodedValue(decoding: BinaryEncoder().encode(value)).json()
        }
        #expect(
            try tree {
                try $0.encode(["a": 1], forKey: "super")
                var above = $0.superEncoder().container(keyedBy: Odd.Key.self)
                try above.encode(2, forKey: "b")
            } == #"{"super":{"a":1,"b":2}}"#)
        #expect(
            try tree {
                try $0.encode([1], forKey: "k")
                var above = $0.superEncoder(forKey: "k").unkeyedContainer()
                try above.encode(2)
            } == #"{"k":[1,2]}"#)
        #expect(
            try tree {
                try $0.encode([1], forKey: "k")
                _ = $0.superEncoder(forKey: "k")
            } == #"{"k":[1]}"#)
        #expect(
            try tree {
                try $0.encode([1], forKey: "k")
                var single = $0.superEncoder(forKey: "k").singleValueContainer()
                try single.encode("last")
            } == #"{"k":"last"}"#)
        #expect(
            try tree {
                var first = $0.superEncoder().container(keyedBy: Odd.Key.self)
                try first.encode(1, forKey: "a")
                var second = $0.superEncoder().container(keyedBy: Odd.Key.self)
                try second.encode(2, forKey: "b")
            } == #"{"super":{"a":1,"b":2}}"#)
    }

    @Test("conflicting containers are an error")
    func contradictions() {
        let values: [Odd.Custom] = [
            .init { encoder in
                _ = encoder.container(keyedBy: Odd.Key.self)
                _ = encoder.unkeyedContainer()
            },
            .init { encoder in
                var map = encoder.container(keyedBy: Odd.Key.self)
                try map.encode(["x": 1], forKey: "a")
                _ = map.nestedUnkeyedContainer(forKey: "a")
            },
            .init { encoder in
                var map = encoder.container(keyedBy: Odd.Key.self)
                try map.encode("text", forKey: "a")
                var nested = map.nestedContainer(keyedBy: Odd.Key.self, forKey: "a")
                try nested.encode(1, forKey: "b")
            },
            .init { encoder in
                var map = encoder.container(keyedBy: Odd.Key.self)
                _ = map.nestedContainer(keyedBy: Odd.Key.self, forKey: "a")
                _ = map.nestedUnkeyedContainer(forKey: "a")
            },
            .init { encoder in
                var array = encoder.unkeyedContainer()
                try array.encode(1)
                var map = encoder.container(keyedBy: Odd.Key.self)
                try map.encode(1, forKey: "a")
            },
            .init { encoder in
                var single = encoder.singleValueContainer()
                try single.encode(1)
                try single.encode(2)
            },
            .init { encoder in
                var single = encoder.singleValueContainer()
                try single.encode([1: 2])
                try single.encode(["x"])
            },
            .init { encoder in
                var single = encoder.singleValueContainer()
                try single.encodeNil()
                var map = encoder.container(keyedBy: Odd.Key.self)
                var nested = map.nestedUnkeyedContainer(forKey: "a")
                try nested.encode(1)
            },
            .init { encoder in
                var map = encoder.container(keyedBy: Odd.Key.self)
                let copy = map
                try map.encode(
                    Odd.Custom { _ in
                        var copy = copy
                        try copy.encode(1, forKey: "b")
                    }, forKey: "a")
            },
            .init { encoder in
                var map = encoder.container(keyedBy: Odd.Key.self)
                let copy = map
                try map.encode(
                    Odd.Custom { _ in
                        var copy = copy
                        _ = copy.nestedUnkeyedContainer(forKey: "b")
                    }, forKey: "a")
            },
        ]
        for (index, value) in values.enumerated() {
            #expect(throws: EncodingError.self, "\(index)") { try BinaryEncoder().encode(value) }
            #expect(throws: EncodingError.self, "\(index)") { try BinaryEncoder().encode([value]) }
        }
    }

    @Test("a retained encoder writes nothing after the encoding")
    func lateEncoder() throws {
        let keeper = Odd.Keeper()
        let value = Odd.Custom { encoder in
            keeper.encoder = encoder
            var map = encoder.container(keyedBy: Odd.Key.self)
            try map.encode(1, forKey: "a")
            keeper.keyed = map
        }
        #expect(try BinaryEncoder().encode(value).hex == "a1616101")
        try keeper.keyed?.encode("late", forKey: "b")
        var array = keeper.encoder?.unkeyedContainer()
        try array?.encode(1)
    }

    @Test("errors name the path and do not contain the value")
    func errors() {
        struct Secret: Encodable {
            var list = [["token": [[[["secret"]]]]]]
        }
        var encoder = BinaryEncoder()
        encoder.maximumDepth = 5
        #expect {
            try encoder.encode(Secret())
        } throws: { error in
            guard case EncodingError.invalidValue(let value, let context) = error else { return false }
            let path = context.codingPath.map(\.stringValue).prefix(3)
            return Array(path) == ["list", "Index 0", "token"] && !"\(error) \(value)".contains("secret")
        }
    }

    @Test("single values of every width encode")
    func singleValues() throws {
        func write(_ body: @escaping (inout any SingleValueEncodingContainer) throws -> Void) throws -> String {
            let value = Odd.Custom { encoder in
                var container = encoder.singleValueContainer()
                try body(&container)
            }
            return try BinaryEncoder().encode(value).hex
        }
        #expect(try write { try $0.encode(Int(-1)) } == "20" && write { try $0.encode(Int8(-1)) } == "20")
        #expect(try write { try $0.encode(Int16(-1)) } == "20" && write { try $0.encode(Int32(-1)) } == "20")
        #expect(try write { try $0.encode(Int64(-1)) } == "20" && write { try $0.encode(Int128(-1)) } == "20")
        #expect(try write { try $0.encode(UInt(1)) } == "01" && write { try $0.encode(UInt8(1)) } == "01")
        #expect(try write { try $0.encode(UInt16(1)) } == "01" && write { try $0.encode(UInt32(1)) } == "01")
        #expect(try write { try $0.encode(UInt64(1)) } == "01" && write { try $0.encode(UInt128(1)) } == "01")
        #expect(try write { try $0.encode(true) } == "f5" && write { try $0.encode("a") } == "6161")
        #expect(try write { try $0.encode(1.5) } == "fb3ff8000000000000")
        #expect(try write { try $0.encode(Float(1.5)) } == "fa3fc00000" && write { try $0.encodeNil() } == "f6")
    }

    @Test("values see the user info and their coding path")
    func userInfo() throws {
        let key = try #require(CodingUserInfoKey(rawValue: "key"))
        var encoder = BinaryEncoder()
        encoder.userInfo[key] = 7
        let value = Odd.Custom { encoder in
            var single = encoder.singleValueContainer()
            try single.encode(encoder.userInfo[key] as? Int)
            #expect(encoder.codingPath.map(\.stringValue) == ["k", "Index 1"])
            #expect(encoder.codingPath.map(\.intValue) == [nil, 1])
            #expect(single.codingPath.count == 2)
        }
        let other = Odd.Custom { encoder in
            var array = encoder.unkeyedContainer()
            var map = array.nestedContainer(keyedBy: Odd.Key.self)
            let above = map.superEncoder()
            #expect(above.codingPath.map(\.stringValue) == ["k", "Index 0", "Index 0", "super"])
            #expect(array.codingPath.count == 2 && map.codingPath.count == 3)
        }
        #expect(try encoder.encode(["k": [other, value]]).hex == "a1616b8281a1657375706572a007")
    }
}

extension Collection<UInt8> {
    var hex: String {
        map { String(UInt16($0) | 0x100, radix: 16).dropFirst() }.joined()
    }
}

extension String {
    var bare: String { filter { $0 != " " } }

    /// Parses hexadecimal digits.
    var unhexed: [UInt8] {
        let digits = bare.compactMap { $0.hexDigitValue.map(UInt8.init) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
