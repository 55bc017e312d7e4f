import Foundation
import Testing

@testable import ForgeCoding

/// Bytes of released versions, which must keep decoding; a version that writes others adds a file and keeps the old one.
@Suite("Golden files") struct GoldenTests {
    /// One field per form that the format has.
    struct Golden: Codable, Equatable {
        enum Kind: Codable, Equatable { case plain, loaded(count: Int, String) }

        var truth = true
        var small = -1
        var large = UInt64.max
        var wide = Int128.min
        var float: Float = 0.1
        var double = 0.1
        var infinity = -Double.infinity
        var text = "zwölf Boxkämpfer 🥊"
        var data = Data([0, 1, 254, 255])
        var octets: [UInt8] = [9, 8, 7]
        var date = Date(timeIntervalSince1970: 1_700_000_000)
        var fine = Date(timeIntervalSinceReferenceDate: 0.1)
        var url = URL(string: "https://example.com/a?b=%20#c")
        var id = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
        var price = Decimal(string: "-12345678901234567890.123456789")
        var list = Array(0..<25)
        var holes: [Int?] = [1, nil, 3]
        var table = ["key": [1.5]]
        var numbers = [-7: "minus seven"]
        var kinds = [Kind.plain, .loaded(count: 2, "x")]
        var absent: String?
    }

    static func bytes(_ name: String) throws -> [UInt8] {
        let url = try #require(Bundle.module.url(forResource: name, withExtension: "bin", subdirectory: "Golden"))
        return [UInt8](try Data(contentsOf: url))
    }

    @Test("version 1 keeps decoding, in both formats", arguments: ["value-1-binary", "value-1-json"])
    func decodes(_ name: String) throws {
        let bytes = try Self.bytes(name)
        #expect(try ValueCoder().decode(Golden.self, from: bytes) == Golden())
        #expect(try ValueEnvelope(decoding: bytes).schemaVersion == 300)
    }

    @Test("version 1 is what is written (JSON is written by Foundation, whose choice of digits may change)")
    func encodes() throws {
        #expect(try ValueCoder().encode(Golden(), schemaVersion: 300) == Self.bytes("value-1-binary"))
    }

    @Test("the tree of the file is the same bytes")
    func tree() throws {
        let envelope = try ValueEnvelope(decoding: Self.bytes("value-1-binary"))
        #expect(try CodedValue(decoding: envelope).encoded() == Array(envelope.payload))
    }
}
