#if S3
import ChildProcesses
import Foundation
import S3Servers
import ServerTestSupport
import Testing

/// A prefix of its own in moto, and a directory.
struct S3Fixture: CommandServer {
    let moto: MotoServer
    let scratch: Scratch
    let prefix = UUID().uuidString.lowercased()

    init() async throws {
        moto = try await MotoServer.shared()
        scratch = try Scratch()
    }

    /// The URL of everything in the fixture's part of the bucket.
    var place: String { "s3://\(MotoServer.bucket)/\(prefix)" }

    var url: String { "\(place)/app" }

    var environment: [String: String] {
        [
            "AWS_ENDPOINT_URL": moto.endpoint + "/", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": moto.accessKeyID,
            "AWS_SECRET_ACCESS_KEY": moto.secretAccessKey, "AWS_EC2_METADATA_DISABLED": "true", "FORGE_DEADLINE": "180",
        ]
    }

    struct Refused: Error {}

    /// Stores an object with another client, which adds no metadata.
    func putForeign(_ key: String, _ content: String, storageClass: String = "STANDARD") async throws {
        let script = """
            import boto3, sys
            client = boto3.client("s3", endpoint_url=sys.argv[1])
            client.put_object(Bucket=sys.argv[2], Key=sys.argv[3], Body=sys.argv[4].encode(), StorageClass=sys.argv[5])
            """
        let arguments = [
            "python3", "-c", script, moto.endpoint, MotoServer.bucket, "\(prefix)/\(key)", content, storageClass,
        ]
        let environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        try await onThread {
            let run = try ChildProcess.run(
                "/usr/bin/env", arguments, environment: environment.merging(["AWS_DEFAULT_REGION": "us-east-1"]) { $1 })
            guard run.end == .exit(0) else { throw Refused() }
        }
    }
}

@Suite("The command and S3", .enabled(if: MotoServer.isInstalled), .timeLimit(.minutes(10)))
struct S3CommandTests {
    @Test("files are stored from a path or standard input, printed, listed and removed")
    func files() async throws {
        let fixture = try await S3Fixture()
        try fixture.scratch.plant("source", Data("from a file".utf8))
        let source = fixture.scratch.path("source")
        #expect(try await fixture.forge("file", "set", fixture.url, "a/one.txt", source).status == 0)
        let set = try await fixture.forge("file", "set", fixture.url, "a/two.txt", "--json", input: "from input")
        #expect(set.output == #"{"action":"set","bytes":10,"key":"a/two.txt"}"# + "\n")
        #expect(try await fixture.forge("file", "get", fixture.url, "a/one.txt").output == "from a file")
        let output = fixture.scratch.path("output")
        let get = try await fixture.forge("file", "get", fixture.url, "a/two.txt", "--output", output, "--json")
        #expect(get.status == 0 && get.output.contains("\"bytes\":10"), "\(get)")
        #expect(try String(contentsOfFile: output, encoding: .utf8) == "from input")
        let taken = try await fixture.forge("file", "set", fixture.url, "a/two.txt", "--new", input: "again")
        #expect(taken.status == 1 && taken.errorLines.count == 1, "\(taken.errors)")
        let list = try await fixture.forge("file", "list", fixture.url, "--json")
        #expect(list.lines.count == 2 && list.lines[0].contains("\"bytes\":11"), "\(list.output)")
        #expect(try await fixture.forge("file", "list", fixture.url, "a").output.contains("two.txt"))
        #expect(try await fixture.forge("file", "rm", fixture.url, "a/one.txt").status == 0)
        let directory = try await fixture.forge("file", "rm", fixture.url, "a")
        #expect(directory.status == 1 && directory.errors.contains("--recursive"), "\(directory.errors)")
        #expect(try await fixture.forge("file", "rm", fixture.url, "a", "--recursive").status == 0)
        let gone = try await fixture.forge("file", "get", fixture.url, "a/two.txt", "--output", output)
        #expect(gone.status == 4 && gone.errorLines.count == 1, "\(gone.errors)")
        #expect(try String(contentsOfFile: output, encoding: .utf8) == "from input")
    }

    @Test("files are listed in the order of a store on disk")
    func order() async throws {
        let fixture = try await S3Fixture()
        let keys = ["a/b", "a-b", "a.b", "ab"]
        for key in keys.reversed() {
            #expect(try await fixture.forge("file", "set", fixture.url, key, input: "x").status == 0)
        }
        let list = try await fixture.forge("file", "list", fixture.url, "--json")
        #expect(list.lines.count == keys.count && list.errors.isEmpty, "\(list)")
        for (line, key) in zip(list.lines, keys) { #expect(line.contains("\"key\":\"\(key)\""), "\(list.output)") }
    }

    @Test("the form of the address, the certificates and the region come from the environment")
    func environment() async throws {
        let fixture = try await S3Fixture()
        for (name, value, status) in [
            ("FORGE_S3_ADDRESSING", "path", 0), ("FORGE_S3_ADDRESSING", "host", 7),
            ("AWS_CA_BUNDLE", fixture.scratch.path("none"), 1), ("AWS_REGION", "a/b", 1),
        ] as [(String, String, Int32)] {
            let variables = [name: value, "FORGE_DEADLINE": status == 7 ? "0.5" : "180"]
            let run = try await fixture.forge("file", "list", fixture.url, variables: variables)
            #expect(run.status == status, "\(name) \(value): \(run.errors)")
            #expect(run.errorLines.count == (status == 0 ? 0 : 1), "\(run.errors)")
        }
    }

    @Test("a missing bucket is not found, one that cannot be reached has a status of its own, and both are named")
    func missing() async throws {
        let fixture = try await S3Fixture()
        let other = "s3://none-\(UUID().uuidString.lowercased())"
        let port = try LoopbackSocket.freePort()
        try fixture.scratch.plant("tree/a", Data("1".utf8))
        for (url, place, status, variables) in [
            ("\(other)/app", "\(other) at \(fixture.moto.endpoint)", Int32(4), [String: String]()),
            (
                fixture.url, "s3://\(MotoServer.bucket) at http://127.0.0.1:\(port)", 7,
                ["AWS_ENDPOINT_URL": "http://127.0.0.1:\(port)", "FORGE_DEADLINE": "0.5"]
            ),
        ] {
            for arguments in [
                ["file", "list", url], ["file", "get", url, "a"], ["file", "set", url, "a"], ["file", "rm", url, "a"],
                ["copy", url, "tree:\(fixture.scratch.path("new"))"],
                ["copy", "tree:\(fixture.scratch.path("tree"))", url],
            ] {
                let environment = fixture.environment.merging(variables) { _, new in new }
                let run = try await ForgeRun(arguments, environment, input: Data("x".utf8)).ended()
                #expect(run.status == status, "\(arguments): \(run.status) \(run.errors)")
                #expect(run.errorLines.count == 1 && run.output.isEmpty, "\(run.errors)")
                #expect(run.errors.contains(place), "\(arguments): \(run.errors)")
            }
        }
        #expect(!FileManager.default.fileExists(atPath: fixture.scratch.path("new")))
    }

    @Test("wrong credentials are refused and not shown, and missing ones are named")
    func credentials() async throws {
        let fixture = try await S3Fixture()
        let wrong = try await fixture.forge(
            "file", "list", fixture.url, variables: ["AWS_SECRET_ACCESS_KEY": "wrong-secret"])
        #expect(wrong.status == 1 && wrong.errorLines.count == 1, "\(wrong.errors)")
        #expect(!wrong.errors.contains("wrong-secret"))
        let none = try await fixture.forge("file", "list", fixture.url, variables: ["AWS_SECRET_ACCESS_KEY": ""])
        #expect(none.status == 1 && none.errors.contains("only one of AWS_ACCESS_KEY_ID"), "\(none.errors)")
        let variables = [
            "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "TRUE",
            "FORGE_DEADLINE": "0.5",
        ]
        let local = try await fixture.forge("file", "list", fixture.url, variables: variables)
        #expect(local.status == 1 && local.errors.contains("(no credentials, "), "\(local.errors)")
        let invalid = try await fixture.forge("file", "list", fixture.url, variables: ["AWS_ENDPOINT_URL": "nonsense"])
        #expect(invalid.status == 1 && invalid.errorLines.count == 1, "\(invalid.errors)")
    }

    @Test("output that cannot be written is one line", arguments: [["file", "list"], ["file", "get"], ["copy"]])
    func lostOutput(verb: [String]) async throws {
        let fixture = try await S3Fixture()
        #expect(try await fixture.forge("file", "set", fixture.url, "a", input: "x").status == 0)
        let extra =
            switch verb {
            case ["file", "get"]: ["a"]
            case ["copy"]: ["tree:\(fixture.scratch.path("tree"))"]
            default: [String]()
            }
        try await expectLostOutput(verb + [fixture.url] + extra, fixture.environment)
    }
}
#endif
