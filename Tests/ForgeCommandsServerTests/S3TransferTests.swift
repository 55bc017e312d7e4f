#if S3
import Foundation
import S3Servers
import Testing

@Suite("copy with S3", .enabled(if: MotoServer.isInstalled), .timeLimit(.minutes(10)))
struct S3TransferTests {
    private func pattern(_ count: Int) -> Data {
        Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
    }

    @Test("files survive a copy to S3, within it, and back to a directory and a file store, and are verified")
    func bothWays() async throws {
        let fixture = try await S3Fixture()
        try fixture.scratch.plant("tree/a.txt", Data("one".utf8))
        try fixture.scratch.plant("tree/d/e/large", pattern(9 << 20))
        try fixture.scratch.plant("tree/d/empty", Data())
        let tree = "tree:\(fixture.scratch.path("tree"))"
        for (from, to) in [
            (tree, fixture.url), (fixture.url, "\(fixture.place)/other"),
            ("\(fixture.place)/other", "tree:\(fixture.scratch.path("back"))"),
            (fixture.url, "file:\(fixture.scratch.path("files"))"),
        ] {
            let run = try await fixture.forge("copy", from, to, "--verify")
            #expect(run.status == 0, "\(run.errors)")
            #expect(run.output == "3 copied (9.0 MiB), 0 equal, 3 verified\n", "\(run.output)")
        }
        let expected = try fixture.scratch.files("tree")
        #expect(try fixture.scratch.files("back") == expected)
        #expect(try fixture.scratch.files("files") == expected)

        try fixture.scratch.plant("tree/a.txt", Data("eno".utf8))
        let changed = try await fixture.forge("copy", tree, fixture.url)
        #expect(changed.output == "1 copied (3 B), 2 equal\n", "\(changed.output)")
        // Another program has stored no checksum.
        try await fixture.putForeign("app/a.txt", "eno")
        let compared = try await fixture.forge("copy", fixture.url, tree, "--verify")
        #expect(compared.output == "0 copied (0 B), 3 equal, 3 verified\n", "\(compared.output)")
    }

    @Test("an object that is archived is reported, and the others are copied", arguments: ["tree", "file"])
    func archived(scheme: String) async throws {
        let fixture = try await S3Fixture()
        for name in ["a", "b", "c"] {
            try await fixture.putForeign("app/\(name)", name, storageClass: name == "b" ? "GLACIER" : "STANDARD")
        }
        let run = try await fixture.forge("copy", fixture.url, "\(scheme):\(fixture.scratch.path("to"))", "--verify")
        #expect(run.status == 2, "\(run.errors)")
        #expect(run.output.contains("fail  \(fixture.url)/b "), "\(run.output)")
        #expect(run.output.contains("InvalidObjectState"), "\(run.output)")
        #expect(run.output.hasSuffix("2 copied (2 B), 0 equal, 1 failed, 2 verified\n"), "\(run.output)")
        #expect(try fixture.scratch.files("to").keys.sorted() == ["a", "c"])
    }

    @Test("a dry run changes nothing, and --delete removes what the source does not have, up to the maximum")
    func differences() async throws {
        let fixture = try await S3Fixture()
        for name in ["same", "other", "new"] { try fixture.scratch.plant("tree/\(name)", Data(name.utf8)) }
        for (name, content) in [("same", "same"), ("other", "else"), ("old1", "x"), ("d/old2", "x")] {
            #expect(try await fixture.forge("file", "set", fixture.url, name, input: content).status == 0)
        }
        let (tree, url) = ("tree:\(fixture.scratch.path("tree"))", fixture.url)
        let words = ["copy", tree, url, "--delete"]
        let dry = try await ForgeRun(words + ["--dry-run"], fixture.environment).ended()
        #expect(
            dry.lines.dropLast().sorted() == [
                "copy  \(tree)/new → \(url)/new", "delete  \(url)/d/old2", "delete  \(url)/old1",
                "equal  \(tree)/same → \(url)/same", "replace  \(tree)/other → \(url)/other",
            ])
        #expect(dry.lines.last == "2 to copy (8 B), 1 equal, 2 to delete", "\(dry.output) \(dry.errors)")
        let refused = try await ForgeRun(words + ["--max-delete", "1"], fixture.environment).ended()
        #expect(refused.status == 2 && refused.errors.contains("nothing was deleted: 2 files"), "\(refused.errors)")
        let run = try await ForgeRun(words, fixture.environment).ended()
        #expect(run.output.hasSuffix("3 equal, 2 deleted\n"), "\(run.output) \(run.errors)")
        let back = try await fixture.forge("copy", fixture.url, "tree:\(fixture.scratch.path("back"))")
        #expect(back.status == 0, "\(back.errors)")
        #expect(try fixture.scratch.files("back") == fixture.scratch.files("tree"))
    }

    @Test("what cannot be copied is listed, and the rest is copied")
    func partial() async throws {
        let fixture = try await S3Fixture()
        try fixture.scratch.plant("tree/a", Data("1".utf8))
        try fixture.scratch.plant("tree/back\\slash", Data("2".utf8))
        try FileManager.default.createSymbolicLink(
            atPath: fixture.scratch.path("tree/link"), withDestinationPath: "a")
        let run = try await fixture.forge("copy", "tree:\(fixture.scratch.path("tree"))", fixture.url)
        #expect(run.status == 2 && run.errorLines == ["Error: 1 item failed, 1 did not"], "\(run.errors)")
        #expect(run.output.contains("skip  ") && run.output.contains("(symbolic link)"), "\(run.output)")

        // A directory has the name of a file.
        try fixture.scratch.plant("back/a/b", Data("x".utf8))
        #expect(try await fixture.forge("file", "set", fixture.url, "c", input: "3").status == 0)
        let taken = try await fixture.forge("copy", fixture.url, "tree:\(fixture.scratch.path("back"))")
        #expect(taken.status == 2, "\(taken.output) \(taken.errors)")
        #expect(try fixture.scratch.files("back") == ["a/b": Data("x".utf8), "c": Data("3".utf8)])
    }

    @Test(
        "a copy that is killed or interrupted is continued by the same command", arguments: [SIGKILL, SIGINT],
        [true, false])
    func continued(signal: Int32, isUpload: Bool) async throws {
        let fixture = try await S3Fixture()
        for number in 0..<120 { try fixture.scratch.plant("tree/d\(number % 7)/\(number)", Data("\(number)".utf8)) }
        let tree = "tree:\(fixture.scratch.path("tree"))"
        if !isUpload { #expect(try await fixture.forge("copy", tree, fixture.url).status == 0) }
        let (from, to) = isUpload ? (tree, fixture.url) : (fixture.url, "tree:\(fixture.scratch.path("back"))")
        let run = try fixture.start("copy", from, to)
        #expect(
            try await eventually {
                guard isUpload else { return try fixture.scratch.hasFile("back") }
                return try await !fixture.forge("file", "list", fixture.url, "--json").lines.isEmpty
            })
        run.send(signal)
        let ended = try await run.ended()
        #expect(ended.endedBySignal == (signal == SIGKILL))
        if signal == SIGINT { #expect(ended.status == 130 && ended.errors == "Error: interrupted\n", "\(ended)") }
        let rest = try await fixture.forge("copy", from, to, "--verify")
        #expect(rest.status == 0, "\(rest.errors)")
        let equal = try #require(rest.output.split(separator: " ").dropFirst(4).first.flatMap { Int($0) })
        #expect(equal > 0 && equal < 120, "\(rest.output)")
        #expect(rest.output.hasSuffix("120 verified\n"), "\(rest.output)")
        if isUpload {
            #expect(try await fixture.forge("copy", fixture.url, "tree:\(fixture.scratch.path("back"))").status == 0)
        }
        let copied = try fixture.scratch.files("back").filter { !$0.key.contains("#tmp-") }
        #expect(try copied == fixture.scratch.files("tree"))
    }

    @Test("objects of other programs that cannot be files are listed; copied and failed are all that there is")
    func foreignObjects() async throws {
        let fixture = try await S3Fixture()
        let foreign = [
            "2024//report.txt", String(repeating: "n", count: 300), "back\\slash.txt", "folder/", "a/../b", "#lock",
        ]
        for name in foreign { try await fixture.putForeign("app/\(name)", "x") }
        try await fixture.putForeign("app/empty/", "")
        try await fixture.putForeign("app/d/ok", "1")
        let target = "tree:\(fixture.scratch.path("back"))"
        for words in [["copy", fixture.url, target, "--json", "--verify"], ["copy", fixture.url, target, "--json"]] {
            let run = try await ForgeRun(words, fixture.environment).ended()
            #expect(run.status == 2, "\(run.status) \(run.errors)")
            for name in foreign.dropFirst(2) {
                #expect(run.output.contains("\"key\":\"\(name.replacing("\\", with: "\\\\"))\""))
            }
            let summary = try #require(run.lines.last)
            #expect(summary.contains("\"failed\":\(foreign.count)"), "\(summary)")
        }
        #expect(try fixture.scratch.files("back") == ["d/ok": Data("1".utf8)])
        let list = try await fixture.forge("file", "list", fixture.url, "--json")
        #expect(list.status == 2, "\(list.status) \(list.errors)")
        #expect(list.lines.count { $0.contains("\"unlisted\":") } == foreign.count, "\(list.output)")
        #expect(list.lines.count == foreign.count + 1, "\(list.output)")
    }

    @Test("a copy into itself, and an empty source, are refused")
    func refusals() async throws {
        let fixture = try await S3Fixture()
        let own = try await fixture.forge("copy", fixture.url, fixture.url + "/b")
        #expect(own.status == 64 && own.errorLines.count == 1, "\(own.errors)")
        let empty = try await fixture.forge("copy", fixture.url, "file:\(fixture.scratch.path("new"))")
        #expect(empty.status == 1 && empty.errors.contains("the source is empty"), "\(empty.errors)")
        #expect(!FileManager.default.fileExists(atPath: fixture.scratch.path("new")))
    }
}
#endif
