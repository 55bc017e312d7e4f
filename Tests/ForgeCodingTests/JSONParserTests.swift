import ForgeCoding
import Testing

@Suite("Parsing of JSON text") struct JSONParserTests {
    @Test(
        "the error for text that is not JSON says what was expected, and where",
        arguments: [
            ("x", "expected a value at byte 0"), ("[,1]", "expected a value at byte 1"),
            ("{\"a\":}", "expected a value at byte 5"), ("-x", "expected a digit at byte 1"),
            ("1.x", "expected a digit at byte 2"), ("1ex", "expected a digit at byte 2"),
            ("{1:2}", "expected a key at byte 1"), ("{\"a\" 1}", "expected a colon at byte 5"),
            ("[1 2]", "expected a comma or a closing bracket at byte 3"),
            ("{\"a\":1 2}", "expected a comma or a closing brace at byte 7"),
            (#""\u00g0""#, "expected a hexadecimal digit at byte 5"), ("nulL", "an invalid literal at byte 0"),
            ("{\"a\":1,\"a\":2}", "a duplicate key at byte 11"),
        ])
    func failures(_ text: String, _ reason: String) {
        #expect(throws: CodingFailure(.decode, .corrupted("JSON: \(reason)"))) { try CodedValue(json: text) }
    }

    @Test("text that ends too early is truncated", arguments: ["", " ", "-", "[1,", "{\"a\":", #""\u12"#])
    func truncated(_ text: String) {
        #expect(throws: CodingFailure(.decode, .truncated)) { try CodedValue(json: text) }
    }

    @Test("members of an object are parsed only from an object")
    func noObject() {
        #expect(throws: CodingFailure(.decode, .corrupted("JSON: expected an object at byte 1"))) {
            try JSONMembers(" []", levels: 64)
        }
    }

    @Test("canonically equivalent keys are different keys, in text and in bytes")
    func equivalentKeys() throws {
        let names = ["\u{E9}", "e\u{301}"]
        try #require(names[0] == names[1])
        let tree = CodedValue.map([.init(.string(names[0]), .integer(1)), .init(.string(names[1]), .integer(2))])
        let text = try tree.json()
        for parsed in [try CodedValue(json: text), try CodedValue(decoding: tree.encoded())] {
            #expect(names.map { parsed[$0] } == [.integer(1), .integer(2)])
            #expect(try parsed.json() == text)
        }
        #expect(try JSONMembers(text, levels: 64).members.map(\.name.utf8.count) == [2, 3])
    }
}
