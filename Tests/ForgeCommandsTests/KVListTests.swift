import ForgeStorage
import Foundation
import Testing

@Suite("kv list")
struct KVListTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// A store with a readable value before and behind one that cannot be decoded.
    private func fill(_ url: URL) throws {
        let store = try FileKVStore(at: url)
        try store.set(KVKey<String>("a"), value: "first")
        try store.setRawValue([0xFF, 0x00, 0x01], named: "b")
        try store.set(KVKey<String>("c"), value: "last")
        try store.synchronize()
    }

    @Test("a value that cannot be decoded is shown as such among the others, and is the exit status")
    func undecodable() throws {
        try fill(scratch.url.appendingPathComponent("kv"))
        let run = try CommandRun(["kv", "list", scratch.path("kv")])
        #expect(run.status == 1)
        let lines = run.output.split(separator: "\n")
        #expect(lines.contains { $0.hasPrefix("a ") && $0.hasSuffix("\"first\"") }, "\(run.output)")
        #expect(lines.contains { $0.hasPrefix("b ") && $0.contains("cannot be decoded") }, "\(run.output)")
        #expect(lines.contains { $0.hasPrefix("c ") && $0.hasSuffix("\"last\"") }, "\(run.output)")
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("b"), "\(run.errors)")
    }

    @Test("JSON has every key too")
    func undecodableAsJSON() throws {
        try fill(scratch.url.appendingPathComponent("kv"))
        let run = try CommandRun(["kv", "list", scratch.path("kv"), "--json"])
        #expect(run.status == 1)
        let object = try #require(JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
        #expect(object["a"] as? String == "first")
        #expect((object["b"] as? [String: Any])?.keys.sorted() == ["bytes", "undecodable"])
        #expect(object["c"] as? String == "last")
        #expect(run.errorLines.count == 1)
    }

    @Test(
        "a path that leads to a file holds no store",
        arguments: [["kv", "list"], ["kv", "get"], ["kv", "rm"], ["file", "list"], ["file", "get"], ["check"]],
        ["plain", "plain/below"])
    func plainFile(verb: [String], name: String) throws {
        try Data("text".utf8).write(to: scratch.url.appendingPathComponent("plain"))
        let key = ["get", "rm"].contains(verb.last) ? ["key"] : []
        let run = try CommandRun(verb + [scratch.path(name)] + key)
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("no store here"), "\(run.errors)")
    }
}
