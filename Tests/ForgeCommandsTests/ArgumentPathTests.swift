import ForgeStorage
import Foundation
import Testing

/// Relative paths in arguments, as the system resolves them from the working directory.
@Suite("Paths in arguments")
struct ArgumentPathTests {
    let scratch: Scratch

    /// `ln` is a link to `other/deep`, so that `ln/../T` is `other/T`.
    init() throws {
        scratch = try Scratch()
        for name in ["other/deep", "other/T", "T", "S", "home"] {
            try FileManager.default.createDirectory(
                at: scratch.url.appendingPathComponent(name), withIntermediateDirectories: true)
        }
        try FileManager.default.createSymbolicLink(atPath: scratch.path("ln"), withDestinationPath: "other/deep")
        try write("s", to: "S/s")
        try write("victim", to: "T/v")
        try write("inner", to: "other/src")
        try write("outer", to: "src")
    }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: scratch.url.appendingPathComponent(name))
    }

    private func names(_ directory: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: scratch.path(directory)).sorted()
    }

    /// Runs the command in the directory of the test.
    @discardableResult
    private func run(_ words: String..., input: String = "", status: Int32 = 0) throws -> CommandRun {
        let prefix = ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", scratch.url.path]
        let run = try CommandRun(words, input: Data(input.utf8), prefix: prefix)
        #expect(run.status == status, "\(words): \(run.errors)")
        return run
    }

    @Test("`..` after a link leads where the system resolves it: copies replace and delete only there")
    func dotDotAfterLink() throws {
        try run("copy", "tree:S", "tree:ln/../T", "--delete")
        #expect(try names("other/T") == ["s"])
        #expect(try names("T") == ["v"])
        try run("file", "set", "fs", "k", "ln/../src")
        #expect(try run("file", "get", "fs", "k").output == "inner")
        try run("file", "get", "fs", "k", "-o", "ln/../out")
        try run("kv", "set", "ln/../kv", "k", "1")
        try run("copy", "kv:ln/../kv", "json:ln/../lines")
        try run("copy", "json:ln/../lines", "kv:ln/../kv2")
        try run("backup", "ln/../kv", "ln/../backup")
        try run("restore", "ln/../backup", "ln/../restored")
        try run("demo", "--directory", "ln/../demo")
        for words in [["check"], ["repair"], ["du"]] { try run(words[0], "ln/../kv") }
        // After the outputs, which are not written into a directory of vaults.
        try run("secret", "set", "ln/../vault", "--key-file", "ln/../key", "--create", "n", input: "s")
        #expect(
            try names("other").filter { !$0.hasPrefix("#") } == [
                "T", "backup", "deep", "demo", "key", "kv", "kv2", "lines", "out", "restored", "src", "vault",
            ])
        #expect(try names(".") == ["S", "T", "fs", "home", "ln", "other", "src"])
    }

    @Test(
        "a path with a leading tilde is a name in the working directory", arguments: ["~", "~/x", "~root", "~nobody/x"])
    func tilde(name: String) throws {
        if name.contains("/") {
            let parent = String(name.prefix { $0 != "/" })
            try FileManager.default.createDirectory(
                at: scratch.url.appendingPathComponent(parent), withIntermediateDirectories: true)
        }
        // Reads first, which change nothing wherever they look.
        let missing = try run("kv", "get", name, "k", status: 4)
        #expect(missing.errors.contains("\(scratch.url.lastPathComponent)/\(name)"), "\(missing.errors)")
        guard missing.errors.contains(scratch.url.lastPathComponent) else { return }
        try run("kv", "set", name, "k", "1")
        try run("copy", "kv:\(name)", "kv:there")
        #expect(try run("kv", "get", "there", "k").output == "1\n")
        #expect(FileManager.default.fileExists(atPath: "\(scratch.url.path)/\(name)/log"))
    }

    @Test("a relative path is refused if the working directory was removed")
    func removedDirectory() throws {
        let gone = scratch.path("gone")
        try FileManager.default.createDirectory(atPath: gone, withIntermediateDirectories: true)
        let prefix = ["/bin/sh", "-c", "cd \"$0\" && rmdir \"$0\" && exec \"$@\"", gone]
        let run = try CommandRun(["kv", "set", "../kv", "k", "1"], prefix: prefix)
        #expect(run.status != 0)
        #expect(run.errorLines.count == 1, "\(run.errors)")
        #expect(try names(".").contains("kv") == false)
    }
}
