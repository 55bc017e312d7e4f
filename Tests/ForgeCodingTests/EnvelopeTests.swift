import Foundation
import Testing

@testable import ForgeCoding

@Suite("Envelope") struct EnvelopeTests {
    @Test(
        "the schema version has a variable length",
        arguments: [
            (UInt32(0), "1100"), (1, "1101"), (127, "117f"), (128, "118001"), (.max, "11ffffffff0f"),
        ])
    func versions(_ version: UInt32, _ header: String) throws {
        let envelope = ValueEnvelope(schemaVersion: version, payload: [0xF6])
        #expect(envelope.encoded.hex == header + "f6")
        #expect(try ValueEnvelope(decoding: envelope.encoded) == envelope)
        #expect(try ValueCoder().encode(nil as Int?, schemaVersion: version) == envelope.encoded)
        #expect(try ValueCoder().decode(Int?.self, from: envelope) == nil)
    }

    static let refused: [(String, CodingFailure.Reason)] = [
        ("", .truncated), ("11", .truncated), ("1180", .truncated), ("2101f6", .unknownEnvelope(version: 2)),
        ("0101", .unknownEnvelope(version: 0)), ("7b7d", .unknownEnvelope(version: 7)), ("1201f6", .unknownFormat(2)),
        ("1001f6", .unknownFormat(0)), ("118000f6", .corrupted("the schema version is not valid")),
        ("11ffffffff1ff6", .corrupted("the schema version is not valid")),
        ("11ffffffffff00f6", .corrupted("the schema version is not valid")),
    ]

    @Test("an unknown or damaged envelope is refused", arguments: refused.indices)
    func refusals(_ index: Int) throws {
        let (hex, reason) = Self.refused[index]
        let failure = CodingFailure(.envelope, reason)
        #expect(throws: failure) { try ValueEnvelope(decoding: hex.unhexed) }
        #expect(throws: failure) { try ValueCoder().decode(Int.self, from: hex.unhexed) }
    }

    @Test("the envelope precedes the payload")
    func layout() throws {
        #expect(try ValueCoder().encode(["a": 1], schemaVersion: 2).hex == "1102a1616101")
    }

    @Test("limits hold for encoding and decoding")
    func limits() throws {
        let coder = ValueCoder()
        let value = [[["text of some length"]]]
        let bytes = try coder.encode(value)
        var small = coder
        small.maximumSize = 10
        #expect(throws: CodingFailure(.encode, .tooLarge(limit: 10))) { try small.encode(value) }
        #expect(throws: CodingFailure(.decode, .tooLarge(limit: 10))) {
            try small.decode([[[String]]].self, from: bytes)
        }
        var shallow = coder
        shallow.maximumDepth = 2
        #expect(throws: (any Error).self) { try shallow.encode(value) }
        #expect(throws: (any Error).self) { try shallow.decode([[[String]]].self, from: bytes) }
        shallow.maximumDepth = 3
        #expect(try shallow.decode([[[String]]].self, from: shallow.encode(value)) == value)
    }

    @Test("no depth exceeds the bound")
    func boundedDepth() throws {
        var coder = ValueCoder()
        coder.maximumDepth = .max
        let arrays = { (count: Int) in Array(repeating: 0x81 as UInt8, count: count) + [0x80] }
        let envelope = { ValueEnvelope(schemaVersion: 1, payload: arrays($0)) }
        // Arrays in an array that the type does not read.
        struct Reader: Decodable {
            init(from decoder: any Decoder) throws { _ = try decoder.unkeyedContainer() }
        }
        _ = try coder.decode(Reader.self, from: envelope(900))
        #expect(throws: DecodingError.self) { try coder.decode(Reader.self, from: envelope(2000)) }
    }

    enum Color: String, Codable { case red }

    @Test("a decoding error of a value's own code loses its text, which may contain the value")
    func foreignText() throws {
        let error = try #require(throws: DecodingError.self) {
            try ValueCoder().decode([String: [Color]].self, from: ValueCoder().encode(["k": ["S3CR3T"]]))
        }
        guard case .dataCorrupted(let context) = error else { throw error }
        #expect(context.codingPath.map(\.stringValue) == ["k", "Index 0"])
        #expect(!"\(error)".contains("S3CR3T"))
    }

    struct Point: Codable {
        var x: Int
    }

    func failure(_ hex: String) -> CodingFailure? {
        let envelope = ValueEnvelope(schemaVersion: 1, payload: hex.unhexed)
        do {
            _ = try ValueCoder().decode([Point].self, from: envelope)
            return nil
        } catch {
            return CodingFailure(.decode, describing: error)
        }
    }

    @Test("failures name the reason and the coding path, but no value")
    func failures() {
        #expect(failure("81a161786161")?.description == "decode at 0.x: not a value of type Int")
        #expect(failure("81a16178f6")?.description == "decode at 0.x: null in place of a value of type Int")
        #expect(failure("81a0")?.description == "decode at 0: no value under the key \"x\"")
        #expect(failure("81")?.description == "decode: corrupted: the bytes end inside the item at byte 1")
        #expect(
            CodingFailure(.encode, describing: Odd.Refusal()).description
                == "encode: the value's own code threw Refusal")
        let refused = EncodingError.invalidValue("secret", .init(codingPath: [], debugDescription: "secret"))
        #expect(
            CodingFailure(.encode, describing: refused).description == "encode: not encodable: the value is not valid")
        let own = CodingFailure(.envelope, .unknownFormat(9))
        #expect(CodingFailure(.decode, describing: own) == own)
        #expect(own.description == "envelope: unknown value format 9")
        for reason: CodingFailure.Reason in [
            .truncated, .unknownEnvelope(version: 3), .tooLarge(limit: 1), .tooDeep(limit: 1),
        ] {
            #expect(!reason.description.isEmpty)
        }
        for wire: WireFailure in [.unknownType, .null, .trailing(offset: 1), .unsupportedKey(offset: 2)] {
            #expect(!wire.reason.isEmpty)
        }
    }
}
