import ArgumentParser
import ForgeStorage
import Foundation
import TestDepth
import Testing

@testable import ForgeCommands

@Suite("URLs of stores on servers")
struct StoreURLTests {
    @Test(
        "a URL has servers or a bucket, and a prefix with a slash at its end",
        arguments: [
            ("etcd://host", ["host:2379"], "forge/"), ("etcd://host/", ["host:2379"], "forge/"),
            ("etcd://host:1/app", ["host:1"], "app/"), ("etcds://a.b:2,c/app/", ["a.b:2", "c:2379"], "app/"),
            ("etcd://[::1]:3/a//b", ["[::1]:3"], "a//b/"), ("etcd://[fe80::1]", ["[fe80::1]:2379"], "forge/"),
            ("etcd://HOST,[FE80::A]:9/x", ["host:2379", "[fe80::a]:9"], "x/"),
            ("etcd://[::ffff:1.2.3.4]:9/x", ["[::ffff:1.2.3.4]:9"], "x/"),
            ("etcd://host//registry", ["host:2379"], "/registry/"), ("etcd://h/a%20b@c", ["h:2379"], "a%20b@c/"),
            ("s3://bucket", ["bucket"], ""), ("s3://bucket/", ["bucket"], ""),
            ("s3://my-bucket.x/a/b", ["my-bucket.x"], "a/b/"),
        ])
    func parts(text: String, places: [String], prefix: String) throws {
        let url = try StoreURL(text)
        #expect(url.places == places)
        #expect(url.prefix == prefix)
        #expect(try StoreURL(url.text) == url)
    }

    @Test(
        "what is not valid is refused",
        arguments: [
            "etcd://", "etcd:///app", "etcd://host:0/a", "etcd://host:65536/a", "etcd://host:x/a", "etcd://ho st/a",
            "etcd://a,,b/c", "etcd://a,/c", "etcd://[::1/a", "etcd://[x]/a", "etcd://::1/a", "etcd://host/a?b=c",
            "etcd://host/a#b", "s3://", "s3:///key", "s3://host:9000/bucket", "s3://bücket/a", "s3://bucket?x",
            "etcd:/host", "etcd://xa]/c", "etcd://[ab/c",
            "redis://host/a", "ETCD://host/a",
        ])
    func invalid(text: String) {
        #expect(throws: ValidationError.self) { try StoreURL(text) }
    }

    @Test(
        "an error does not repeat a user or a password",
        arguments: [
            "etcd://root:secret@host/app", "etcds://root@host", "s3://id:secret@bucket/a", "etcd://a,root:secret@b/c",
            "etcd://root:se/cret@host/app", "etcd://root:se?cret@host", "redis://root:secret@host",
        ])
    func credentials(text: String) throws {
        let error = try #require(throws: ValidationError.self) { try StoreURL(text) }
        for word in ["root", "cret", "id"] where text.contains(word + ":") || word == "cret" {
            #expect(!error.message.contains(word), "\(error.message)")
        }
    }

    @Test(
        "an error says what belongs elsewhere than in a URL",
        arguments: [
            ("etcd://root:secret@host", "ETCDCTL_USER"), ("etcds://root@host", "ETCDCTL_USER"),
            ("s3://id:secret@bucket", "AWS_ACCESS_KEY_ID"), ("s3://host:9000/bucket", "AWS_ENDPOINT_URL"),
        ])
    func elsewhere(text: String, variable: String) throws {
        let error = try #require(throws: ValidationError.self) { try StoreURL(text) }
        #expect(error.message.contains(variable), "\(error.message)")
    }

    @Test("an argument is a path unless it begins like a URL")
    func arguments() throws {
        for path in ["etcd", "/etcd://a", "./etcd://a", "file:///a", "etcd:a", "://a", "a b://c", ""] {
            #expect(try StoreURL.parsed(path) == nil, "\(path)")
        }
        #expect(try StoreURL.parsed("s3://bucket") != nil)
        #expect(throws: ValidationError.self) { try StoreURL.parsed("https://host/a") }
    }

    @Test("a place contains itself and those whose prefixes begin with its own")
    func containing() throws {
        let cases = [
            ("etcd://h/a", "etcds://h:2379/a/b", true), ("etcd://h/a", "etcd://h/ab", false),
            ("etcd://h/a/b", "etcd://h/a", false), ("etcd://h,i/a", "etcd://i/a", true),
            ("etcd://h/a", "etcd://i/a", false), ("s3://b", "s3://b/a", true), ("s3://b/a", "s3://c/a", false),
            ("etcd://bucket:2379", "s3://bucket", false),
        ]
        for (outer, inner, contains) in cases {
            #expect(try StoreURL(outer).contains(StoreURL(inner)) == contains, "\(outer) \(inner)")
        }
    }

    @Test("a place may contain those on other servers whose prefixes begin with its own")
    func mayContain() throws {
        let cases = [
            ("etcd://h/a", "etcd://i/a/b", true), ("etcd://h/a", "etcd://i/b", false),
            ("etcd://h/a/b", "etcd://i/a", false),
        ]
        for (outer, inner, contains) in cases {
            #expect(try StoreURL(outer).mayContain(StoreURL(inner)) == contains, "\(outer) \(inner)")
        }
    }
}

@Suite("The environment of stores on servers")
struct ServerEnvironmentTests {
    @Test("a user of etcd has a password of its own, or one after a colon")
    func users() throws {
        let both = try ServerEnvironment(["ETCDCTL_USER": "a:b", "ETCDCTL_PASSWORD": "c"]).etcdUser()
        #expect(both?.name == "a:b" && both?.password == "c")
        let one = try ServerEnvironment(["ETCDCTL_USER": "a:b:c"]).etcdUser()
        #expect(one?.name == "a" && one?.password == "b:c")
        let empty = try ServerEnvironment(["ETCDCTL_USER": "a:"]).etcdUser()
        #expect(empty?.name == "a" && empty?.password == "")
        #expect(try ServerEnvironment(["ETCDCTL_USER": "", "ETCDCTL_PASSWORD": "c"]).etcdUser() == nil)
        let failure = #expect(throws: CommandFailure.self) { try ServerEnvironment(["ETCDCTL_USER": "a"]).etcdUser() }
        #expect(failure?.status == .usage)
    }

    @Test("a deadline is a number of seconds in a range")
    func deadline() throws {
        #expect(try ServerEnvironment([:]).deadline() == nil)
        #expect(try ServerEnvironment(["FORGE_DEADLINE": "0.5"]).deadline() == .milliseconds(500))
        #expect(try ServerEnvironment(["FORGE_DEADLINE": "0.1"]).deadline() == .milliseconds(100))
        #expect(try ServerEnvironment(["FORGE_DEADLINE": "86400"]).deadline() == .seconds(86_400))
        for text in ["0", "0.09", "-1", "x", "nan", "86400.1", "1e9"] {
            #expect(throws: CommandFailure.self) { try ServerEnvironment(["FORGE_DEADLINE": text]).deadline() }
        }
    }

    @Test("of several variables the first that is not empty counts")
    func names() {
        let environment = ServerEnvironment(["a": "", "b": "2", "c": "3"])
        #expect(environment["a", "b", "c"] == "2")
        #expect(environment["a"] == nil)
    }

    #if S3
    @Test("the addressing of S3 is one of two words")
    func addressing() throws {
        let url = try StoreURL("s3://bucket")
        let failure = #expect(throws: CommandFailure.self) {
            try url.openFileStore(ServerEnvironment(["FORGE_S3_ADDRESSING": "hosts"]))
        }
        #expect(failure?.status == .usage)
    }
    #endif
}

@Suite("Arguments that are URLs of stores on servers")
struct ServerArgumentTests {
    private static let etcd = "etcd://127.0.0.1:1/app"
    private static let s3 = "s3://bucket/app"

    #if Etcd && S3
    @Test(
        "a copy into itself is refused before a server is asked",
        arguments: [
            [etcd, etcd], [etcd, "\(etcd)/sub"], ["\(etcd)/sub", etcd], [s3, s3], [s3, "\(s3)/sub"], ["\(s3)/sub", s3],
        ])
    func nested(places: [String]) throws {
        let run = try CommandRun(["copy"] + places)
        #expect(run.status == 64 && run.errors.contains("contain one another"), "\(run.status) \(run.errors)")
    }
    #endif

    #if !Etcd
    @Test(
        "a verb says in one line that it was built without etcd, and how to build it",
        arguments: [
            ["kv", "list", etcd], ["kv", "get", etcd, "a"], ["kv", "set", etcd, "a", "1"], ["kv", "rm", etcd, "a"],
            ["watch", etcd], ["copy", etcd, "json:-"], ["copy", "etcds://a", "json:-"], ["copy", "json:-", etcd],
        ])
    func withoutEtcd(words: [String]) throws {
        let run = try CommandRun(words, input: "{\"key\":\"a\",\"value\":1}\n")
        #expect(run.status == 69, "\(run.errors)")
        #expect(run.errorLines.count == 1 && run.errors.contains("swift build --traits Etcd"), "\(run.errors)")
        #expect(run.output.isEmpty)
        #expect(
            try CommandRun(words + ["--json"], input: "{\"key\":\"a\",\"value\":1}\n").failure()["kind"] as? String
                == "notBuilt")
    }
    #endif

    #if !S3
    @Test(
        "a verb says in one line that it was built without S3, and how to build it",
        arguments: [
            ["file", "list", s3], ["file", "get", s3, "a"], ["file", "set", s3, "a"], ["file", "rm", s3, "a"],
            ["copy", s3, "tree:none"], ["copy", "tree:.", s3],
        ])
    func withoutS3(words: [String]) throws {
        let run = try CommandRun(words, input: "x")
        #expect(run.status == 69, "\(run.errors)")
        #expect(run.errorLines.count == 1 && run.errors.contains("swift build --traits S3"), "\(run.errors)")
        #expect(run.output.isEmpty)
    }
    #endif

    @Test(
        "a URL with credentials is refused and not repeated, wherever it is",
        arguments: TestDepth.pairs(
            [
                ["kv", "list", "URL"], ["kv", "get", "URL", "a"], ["kv", "set", "URL", "a", "1"],
                ["kv", "rm", "URL", "a"],
                ["kv", "list", "kv", "URL"], ["file", "get", "URL", "a"], ["file", "list", "kv", "URL", "URL"],
                ["watch", "URL"], ["copy", "URL", "kv:none"], ["copy", "kv:none", "URL"], ["copy", "URL", "json:-"],
                ["check", "URL"], ["du", "URL"], ["backup", "URL", "none"], ["copy", "kv:a", "kv:b", "URL"], ["URL"],
                ["watch", "kv:a", "--interval", "URL"],
            ], ["etcd", "etcds", "s3"]))
    func credentials(words: [String], scheme: String) throws {
        let words = words.map { $0 == "URL" ? "\(scheme)://root:s3cret@host/app" : $0 }
        let run = try CommandRun(words)
        #expect(run.status == 64, "\(run.errors)")
        #expect(!run.errors.contains("s3cret") && !run.errors.contains("root"), "\(run.errors)")
        #expect(run.output.isEmpty)
    }

    @Test(
        "a URL that is not valid, or not of the verb's kind of store, is wrong usage",
        arguments: [
            ["kv", "list", "etcd://"], ["kv", "list", "etcd://host:x/a"], ["kv", "list", s3],
            ["kv", "set", "redis://h", "a", "1"],
            ["file", "list", etcd], ["file", "list", "s3://host:9000/bucket"], ["file", "set", "https://host/a", "b"],
            ["watch", s3], ["watch", "etcd:host"], ["copy", etcd, "tree:a"], ["copy", s3, "kv:a"],
            ["copy", "kv:a", s3],
            ["copy", "s3:bucket", "tree:a"], ["copy", etcd, s3],
            ["check", etcd], ["du", s3], ["repair", etcd], ["file", "get", "files", "a", "--output", s3],
        ])
    func usage(words: [String]) throws {
        let scratch = try Scratch()
        let run = try CommandRun(words, prefix: ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", scratch.url.path])
        #expect(run.status == 64, "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }
}

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
        for words in [
            ["kv", "set", "../k v", "k", "1"], ["kv", "list", "../k v"], ["file", "list", "../k v"],
            ["copy", "tree:../k v", "tree:../x"],
        ] {
            let run = try CommandRun(words, prefix: prefix)
            #expect(run.status == 1)
            let reason = "the working directory was removed, or its path cannot be read"
            #expect(run.errors == "Error: resolve ../k v: Invalid argument (EINVAL): \(reason)\n", "\(words)")
            try FileManager.default.createDirectory(atPath: gone, withIntermediateDirectories: true)
        }
        #expect(try names(".").contains("k v") == false)
    }
}
