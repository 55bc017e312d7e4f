import ForgeStorage
import Foundation
import Testing

@Suite("Temporary files in a check")
struct CheckTemporaryFilesTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func plant(_ path: String) throws {
        let file = scratch.url.appendingPathComponent(path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data("x".utf8).write(to: file)
    }

    /// The rows of `check`, the details by path.
    private func details() throws -> [String: String] {
        let run = try CommandRun(["check", scratch.url.path, "--json"])
        #expect(run.status == 0, "\(run.errors)")
        let rows = try run.rows()
        return Dictionary(
            uniqueKeysWithValues: rows.map { row in
                (row["path"] as? String ?? "", (row["details"] as? [String] ?? []).joined(separator: "; "))
            })
    }

    private func listing() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
    }

    @Test("a recorded file is in use while its owner writes, and orphaned afterwards; nothing is removed")
    func recorded() async throws {
        let store = DiskFileStore(root: scratch.url.appendingPathComponent("files"))
        try await store.save(Data("text".utf8), to: "d/a.txt")
        let writer = try await store.writer(for: "d/b.txt")
        let record = try Data(contentsOf: scratch.url.appendingPathComponent("files/#journal-0"))
        let id = String(decoding: record[12..<28], as: UTF8.self)
        let recorded = ["files/d/#tmp-\(id)-0", "files/d/#trash-\(id)-0"]
        try plant(recorded[0])
        try plant(recorded[1] + "/x")
        try plant("files/#tmp-\(id)-7")
        try plant("files/#tmp-abcdefghijklmnop")
        try plant("files/#move-abcdefghijklmnop")
        let before = try listing()

        let alive = try details()
        for path in recorded { #expect(alive[path]?.hasPrefix("in use") == true, "\(alive)") }
        #expect(alive[recorded[1] + "/x"] == nil)
        await writer.cancel()
        try plant(recorded[0])
        let dead = try details()
        for path in recorded {
            #expect(dead[path]?.contains("orphaned: its process has ended; the next process") == true, "\(dead)")
        }
        #expect(dead["files/#tmp-\(id)-7"]?.contains("orphaned: its process has ended and no record") == true)
        #expect(dead["files/#tmp-abcdefghijklmnop"]?.contains("no store removes it") == true)
        #expect(dead["files/#move-abcdefghijklmnop"]?.contains("a move into the store") == true)
        #expect(dead["files/d/a.txt"] == "")
        #expect(try listing() == before)
    }

    @Test("the temporary files of key-value stores and vaults are reported as such")
    func fixedNames() async throws {
        let fixture = try await StoreFixture()
        for path in ["kv/#log-new", "kv/#quarantine-new", "vault/#tmp-of-vaults"] {
            try Data("x".utf8).write(to: fixture.scratch.url.appendingPathComponent(path))
        }
        let run = try CommandRun(["check", fixture.scratch.url.path])
        #expect(run.status == 0, "\(run.errors)")
        let lines = run.output.split(separator: "\n").filter { $0.contains("the next opening or change of the store") }
        #expect(lines.count == 3, "\(run.output)")
    }

    @Test("a missing key file is an error, not damage of the vaults")
    func missingKeyFile() async throws {
        let fixture = try await StoreFixture()
        let run = try CommandRun(["check", fixture.scratch.url.path, "--key-file", fixture.scratch.path("typo")])
        #expect(run.status == 4)
        #expect(run.output.isEmpty)
        #expect(run.errors.contains("there is no key file at"), "\(run.errors)")
    }
}
