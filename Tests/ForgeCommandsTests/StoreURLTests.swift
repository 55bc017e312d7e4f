import ArgumentParser
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
            "etcd:/host",
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
        for text in ["0", "-1", "x", "nan", "1e9"] {
            #expect(throws: CommandFailure.self) { try ServerEnvironment(["FORGE_DEADLINE": text]).deadline() }
        }
    }

    @Test("of several variables the first that is not empty counts")
    func names() {
        let environment = ServerEnvironment(["a": "", "b": "2", "c": "3"])
        #expect(environment["a", "b", "c"] == "2")
        #expect(environment["a"] == nil)
    }
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
