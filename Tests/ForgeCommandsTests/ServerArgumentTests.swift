import Foundation
import TestDepth
import Testing

@Suite("Arguments that are URLs of stores on servers")
struct ServerArgumentTests {
    private static let etcd = "etcd://127.0.0.1:1/app"
    private static let s3 = "s3://bucket/app"

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
