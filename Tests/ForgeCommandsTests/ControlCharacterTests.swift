import Foundation
import Testing

@testable import ForgeCommands

@Suite("Control characters in output")
struct ControlCharacterTests {
    private static let hostile = "a\u{1B}[31m\u{07}\u{9B}1m\u{7F}\u{202E}b\nc"

    @Test("each control character is shown by its bytes")
    func escapes() {
        #expect("a\u{1B}[1m\tb".escapingControls() == "a\\x1b[1m\\x09b")
        #expect("\u{9B}\u{202E}".escapingControls() == "\\xc2\\x9b\\xe2\\x80\\xae")
        #expect("a\nb\u{0}".escapingControls(except: ["\n"]) == "a\nb\\x00")
        #expect("é👩‍👩‍👧 ✓".escapingControls() == "é👩‍👩‍👧 ✓")
    }

    @Test("escaped JSON represents the same value")
    func json() throws {
        let object = ["key\u{9B}\u{7F}": "\u{2028}\u{1B}"]
        let text = String(decoding: try JSONEncoder().encode(object), as: UTF8.self).escapingControlsOfJSON()
        #expect(text.unicodeScalars.allSatisfy { $0.isASCII && $0.value >= 0x20 && $0.value < 0x7F })
        #expect(try JSONDecoder().decode([String: String].self, from: Data(text.utf8)) == object)
    }

    @Test("no verb writes a control character of a name or value, to standard output or standard error")
    func verbs() throws {
        let scratch = try Scratch()
        let name = Self.hostile
        let store = scratch.path("kv")
        let vault = [scratch.path("vault/v"), "--key-file", scratch.path("vault/key")]
        #expect(try CommandRun(["kv", "set", store, name, name, "--string"]).status == 0)
        #expect(try CommandRun(["secret", "set"] + vault + [name, "--create"], input: "x").status == 0)
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("kv/\(name)"))
        let runs: [[String]] = [
            ["kv", "list", store], ["kv", "list", store, "--json"], ["kv", "get", store, name],
            ["kv", "get", store, name, "--json"], ["kv", "get", store, "none" + name],
            ["kv", "rm", store, "no" + name],
            ["kv", "list", scratch.path(name)], ["secret", "list"] + vault, ["secret", "list"] + vault + ["--json"],
            ["secret", "get"] + vault + ["none" + name], ["file", "get", store, name], ["file", "list", store],
            ["check", scratch.url.path], ["check", scratch.url.path, "--json"], ["kv", name],
            ["demo", "--directory", scratch.path("demo\u{1B}[31m")],
        ]
        for arguments in runs {
            let run = try CommandRun(arguments)
            for text in [run.output, run.errors] {
                let found = text.unicodeScalars.filter {
                    $0 != "\n" && ($0.properties.generalCategory == .control || $0 == "\u{202E}")
                }
                #expect(found.isEmpty, "\(arguments.map(\.debugDescription)): \(text.debugDescription)")
            }
        }
    }

    @Test("a truncated value in a list ends in an ellipsis")
    func ellipsis() throws {
        #expect("12345".shortened(to: 5) == "12345")
        #expect("123456".shortened(to: 5) == "1234…")
    }
}
