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
        #expect(
            try BinaryEncoder().encode([255, 256, 65535, 65536, 4_294_967_295, 4_294_967_296, -256, -257]).hex
                == "88 18ff 190100 19ffff 1a00010000 1affffffff 1b0000000100000000 38ff 390100".bare)
        #expect(try BinaryEncoder().encode(Array(repeating: true, count: 255)).hex.hasPrefix("98fff5"))
        #expect(try BinaryEncoder().encode(Array(repeating: true, count: 65535)).hex.hasPrefix("99fffff5"))
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

    @Test("a value that nests too deep leaves nothing in a container that is written on")
    func depthOfCaughtFailures() throws {
        let entry = Odd.Custom { encoder in
            var map = encoder.container(keyedBy: Odd.Key.self)
            #expect(throws: EncodingError.self) { try map.encode(Date(), forKey: "a") }
            try map.encode(1, forKey: "b")
        }
        // The mantissa of this number is found to be too deep after a part of the number was written.
        let single = Odd.Custom { encoder in
            var single = encoder.singleValueContainer()
            #expect(throws: EncodingError.self) { try single.encode(Decimal.greatestFiniteMagnitude) }
            try single.encode(1)
        }
        var shallow = BinaryEncoder()
        shallow.maximumDepth = 1
        #expect(try shallow.encode(entry).hex == "a1616201")
        shallow.maximumDepth = 2
        #expect(try shallow.encode(single).hex == "01")
    }

    @Test("the last value of a key wins, whatever the key")
    func lastValue() throws {
        let letters = "abcdefghijklmnopqrstuvwxyz".map { String($0) }
        for name in ["", "name", "a longer name"] + letters {
            let key = Odd.Key(stringValue: name)
            let value = Odd.Custom { encoder in
                var map = encoder.container(keyedBy: Odd.Key.self)
                try map.encode(1, forKey: key)
                try map.encode(2, forKey: key)
            }
            let expected: [UInt8] = try [0xA1] + BinaryEncoder().encode(name) + [2]
            #expect(try BinaryEncoder().encode(value) == expected, "\(name)")
        }
    }

    final class Token: Sendable {}

    @Test("an encoder and a decoder release their user info, also after a failure")
    func release() throws {
        let key = try #require(CodingUserInfoKey(rawValue: "token"))
        weak var encoding: Token?
        weak var decoding: Token?
        do {
            let token = Token()
            encoding = token
            var encoder = BinaryEncoder()
            encoder.userInfo[key] = token
            _ = try encoder.encode(["k": [Odd.Base()]])
            let failing = Odd.Custom { encoder in
                var map = encoder.container(keyedBy: Odd.Key.self)
                try map.encode(["x": ["y": 1]], forKey: "a")
                _ = map.nestedUnkeyedContainer(forKey: "b")
                throw Odd.Refusal()
            }
            for _ in 0..<2 { #expect(throws: Odd.Refusal.self) { try encoder.encode([failing]) } }
        }
        do {
            let token = Token()
            decoding = token
            var decoder = BinaryDecoder()
            decoder.userInfo[key] = token
            #expect(try decoder.decode([[Int?]].self, from: "82 81f6 8101".unhexed) == [[nil], [1]])
            #expect(throws: DecodingError.self) { try decoder.decode([[Int?]].self, from: "82 81f6 816161".unhexed) }
        }
        #expect(encoding == nil && decoding == nil)
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
    func contradictions() throws {
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
        let kind = "a second container of another kind for one value"
        let other = "a container for a key that has a value of another kind"
        let second = "a second value in a single-value container"
        let busy = "the container was written to while one of its values was being encoded"
        let reasons = [kind, other, other, kind, kind, second, second, kind, busy, busy]
        let coder = ValueCoder()
        for (index, value) in values.enumerated() {
            for whole: any Encodable in [value, [value]] {
                let error = #expect(throws: EncodingError.self, "\(index)") { try BinaryEncoder().encode(whole) }
                guard case .invalidValue(_, let context)? = error else { continue }
                #expect(context.debugDescription == reasons[index], "\(index)")
            }
            // The coder reuses its memory.
            #expect(throws: EncodingError.self, "\(index)") { try coder.encode(value) }
            #expect(try coder.encode(["k": Odd.Base()]).hex == "1101 a1616b a1646e616d65 6462617365".bare, "\(index)")
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
