import ForgeStorage
import Foundation
import Testing

@Suite("kv list")
struct KVListTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// A store with readable values before and after one that cannot be decoded.
    private func fill(_ url: URL) throws {
        let store = try FileKVStore(at: url)
        try store.set(KVKey<String>("a"), value: "first")
        try store.setRawValue([0xFF, 0x00, 0x01], named: "b")
        try store.set(KVKey<String>("c"), value: "last")
        try store.synchronize()
    }

    @Test("a value that cannot be decoded is listed as such, and sets the exit status")
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

    @Test("JSON also contains every key")
    func undecodableAsJSON() throws {
        try fill(scratch.url.appendingPathComponent("kv"))
        let run = try CommandRun(["kv", "list", scratch.path("kv"), "--json"])
        #expect(run.status == 1)
        let rows = try run.rows()
        #expect(rows.map { $0["key"] as? String } == ["a", "b", "c"])
        #expect(rows.map { $0["value"] as? String } == ["first", nil, "last"])
        #expect(rows[1].keys.sorted() == ["bytes", "key", "undecodable"])
        #expect(try run.failure()["code"] as? Int == 1)
    }

    @Test(
        "a path of a file is not a store",
        arguments: [["kv", "list"], ["kv", "get"], ["kv", "rm"], ["file", "list"], ["file", "get"], ["check"]],
        ["plain", "plain/below"])
    func plainFile(verb: [String], name: String) throws {
        try Data("text".utf8).write(to: scratch.url.appendingPathComponent("plain"))
        let key = ["get", "rm"].contains(verb.last) ? ["key"] : []
        let run = try CommandRun(verb + [scratch.path(name)] + key)
        #expect(run.status == 4)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("no store here"), "\(run.errors)")
    }

    /// Creates a store whose first record is damaged and whose other nine keys are readable.
    private func fillAndDamage() throws {
        do {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        }
        let log = scratch.url.appendingPathComponent("kv/log")
        var bytes = try Data(contentsOf: log)
        bytes[64 + 25] ^= 1
        try bytes.write(to: log)
    }

    @Test("in a damaged store, readable values are printed, and the damage is one line and sets the exit status")
    func damagedStore() throws {
        try fillAndDamage()
        let store = scratch.path("kv")
        let list = try CommandRun(["kv", "list", store])
        #expect(list.output.split(separator: "\n").count { $0.hasPrefix("key.") } == 9)
        let listAsJSON = try CommandRun(["kv", "list", store, "--json"])
        #expect(try listAsJSON.rows().count == 9)
        let get = try CommandRun(["kv", "get", store, "key.3"])
        #expect(get.output == "3\n")
        let missing = try CommandRun(["kv", "get", store, "key.0"])
        #expect(missing.errors.contains("there is no such key"))
        for run in [list, listAsJSON, get, missing] {
            #expect(run.status == (run.output.isEmpty ? 4 : 1))
            #expect(run.errorLines.count == 1, "\(run.errors)")
            #expect(run.errors.contains("records at byte 64"), "\(run.errors)")
            #expect(run.errors.contains("left in \(store)/log"), "\(run.errors)")
            #expect(!run.errors.contains("set aside"), "\(run.errors)")
        }
    }

    @Test("a change of a damaged store is made, and the damage is one line and sets the exit status, once")
    func changeOfDamagedStore() throws {
        try fillAndDamage()
        let store = scratch.path("kv")
        let set = try CommandRun(["kv", "set", store, "key.3", "33"])
        #expect(set.status == 1)
        #expect(set.errorLines.count == 1, "\(set.errors)")
        #expect(set.errors.contains("set aside in \(store)/quarantine-records-"), "\(set.errors)")
        let get = try CommandRun(["kv", "get", store, "key.3"])
        #expect(get.status == 0, "\(get.errors)")
        #expect(get.output == "33\n")
    }
}
