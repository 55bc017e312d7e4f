import Foundation
import Testing

@testable import ForgeCoding

/// Every version must decode these bytes; a new format version adds a file and keeps the old one.
@Suite("Golden files") struct GoldenTests {
    /// One field per item type of the format.
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

    @Test("version 1 decodes")
    func decodes() throws {
        let bytes = try Self.bytes("value-1-binary")
        #expect(try ValueCoder().decode(Golden.self, from: bytes) == Golden())
        #expect(try ValueEnvelope(decoding: bytes).schemaVersion == 300)
    }

    @Test("values encode as version 1")
    func encodes() throws {
        #expect(try ValueCoder().encode(Golden(), schemaVersion: 300) == Self.bytes("value-1-binary"))
    }

    @Test("a tree encodes to the bytes it was decoded from")
    func tree() throws {
        let envelope = try ValueEnvelope(decoding: Self.bytes("value-1-binary"))
        #expect(try CodedValue(decoding: envelope).encoded() == Array(envelope.payload))
    }
}
