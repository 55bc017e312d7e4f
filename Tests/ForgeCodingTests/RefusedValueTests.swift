import ForgeCoding
import Testing

@Suite("The error of a value that a type refuses")
struct RefusedValueTests {
    private enum Theme: String, Codable { case dark, light }

    private struct Look: Codable {
        var theme: Theme?
        var history: [Theme] = []
    }

    private struct Quoting: Decodable {
        init(from decoder: any Decoder) throws {
            let text = try decoder.singleValueContainer().decode(String.self)
            throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "bad: \(text)"))
        }
    }

    private func failure<Value: Codable & Sendable>(
        of type: (some Decodable).Type, from value: Value
    ) throws -> CodingFailure {
        let bytes = try ValueCoder().encode(value)
        do {
            _ = try ValueCoder().decode(type, from: bytes)
            throw CodingFailure(.decode, .corrupted("no error"))
        } catch let error as DecodingError {
            #expect(!"\(error)".contains("s3cr3t"))
            return CodingFailure(.decode, describing: error)
        }
    }

    @Test("names the type of an unknown enumeration case, and its path, but not the value")
    func unknownCase() throws {
        let top = try failure(of: Theme.self, from: "s3cr3t")
        #expect(top == CodingFailure(.decode, .refused(by: "Theme")))
        #expect(top.description == "decode: the data has a value that Theme does not accept")
        let property = try failure(of: Look.self, from: ["theme": "s3cr3t"])
        #expect(property == CodingFailure(.decode, .refused(by: "Theme"), codingPath: "theme"))
        let element = try failure(of: [Theme].self, from: ["dark", "s3cr3t"])
        #expect(element == CodingFailure(.decode, .refused(by: "Theme"), codingPath: "1"))
    }

    @Test("does not contain the text of the type's own error")
    func ownText() throws {
        let failure = try failure(of: [Quoting].self, from: ["s3cr3t"])
        #expect(failure == CodingFailure(.decode, .refused(by: "Quoting"), codingPath: "0"))
    }

    @Test("differs from that of damaged bytes")
    func damage() throws {
        var bytes = try ValueCoder().encode(["theme": "dark"])
        bytes.removeLast()
        let error = #expect(throws: DecodingError.self) { try ValueCoder().decode(Look.self, from: bytes) }
        let failure = CodingFailure(.decode, describing: try #require(error))
        guard case .corrupted = failure.reason else {
            Issue.record("\(failure)")
            return
        }
    }
}
