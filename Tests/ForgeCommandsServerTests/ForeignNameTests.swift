#if S3 && Etcd
import ChildProcesses
import EtcdServers
import ForgeEtcd
import ForgeStorage
import ForgeStorageTesting
import Foundation
import S3Servers
import ServerTestSupport
import Testing

/// Names through stores on servers, compared by bytes with what another client lists.
@Suite(
    "names that Characters and bytes divide differently, and names of other clients, on servers",
    .enabled(if: MotoServer.isInstalled && EtcdServer.isInstalled), .timeLimit(.minutes(20)))
struct ForeignNameTests {
    /// Texts by their bytes: equal strings can be different names.
    private func bytes(_ texts: some Sequence<String>) -> Set<Data> { Set(texts.map { Data($0.utf8) }) }

    // MARK: S3

    /// Runs boto3: stores an object under each of the names, each with its own name as its content, and returns all
    /// keys that the server has below a prefix, without it.
    private func boto3(_ fixture: S3Fixture, storing names: [Data] = []) async throws -> Set<Data> {
        let script = """
            import base64, boto3, sys
            from botocore.config import Config
            client = boto3.client("s3", endpoint_url=sys.argv[1], config=Config(
                parameter_validation=False, retries={"max_attempts": 1}))
            bucket, prefix = sys.argv[2:]
            for line in sys.stdin:
                name = base64.b64decode(line).decode()
                try:
                    client.put_object(Bucket=bucket, Key=prefix + name, Body=name.encode())
                except Exception:
                    pass  # The server refuses some names; what it lists counts.
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for item in page.get("Contents", []):
                    print(base64.b64encode(item["Key"][len(prefix):].encode()).decode())
            """
        let arguments = [
            "-c", script, fixture.moto.endpoint, MotoServer.bucket, "\(fixture.prefix)/app/",
        ]
        let environment = ProcessInfo.processInfo.environment.merging(fixture.environment) { $1 }
        return try await onThread {
            let outcome = try ChildProcess.run(
                "python3", arguments, environment: environment.merging(["AWS_DEFAULT_REGION": "us-east-1"]) { $1 },
                input: Data(names.map { $0.base64EncodedString() + "\n" }.joined().utf8))
            guard outcome.end == .exit(0) else { throw S3Fixture.Refused() }
            let listed = outcome.output
            return Set(listed.split(separator: UInt8(ascii: "\n")).map { Data(base64Encoded: $0) ?? Data() })
        }
    }

    private func keys(_ store: some FileStoring) async throws -> Set<Data> {
        bytes(try await store.list(in: "", recursive: true).filter { !$0.isDirectory }.map(\.key))
    }

    @Test("names are kept by a store in S3, as another client lists them, and by copies there and back")
    func uneven() async throws {
        let fixture = try await S3Fixture()
        let names = HostileKeys.unevenNames
        let disk = DiskFileStore(root: fixture.scratch.url.appending(path: "a"))
        for name in names { try await disk.save(Data(name.utf8), to: name) }
        let (a, b) = ("file:\(fixture.scratch.path("a"))", "file:\(fixture.scratch.path("b"))")
        for (from, to) in [(a, fixture.url), (fixture.url, b)] {
            let run = try await fixture.forge("copy", from, to, "--verify")
            #expect(run.status == 0, "\(run.output) \(run.errors)")
        }
        #expect(try await boto3(fixture) == bytes(names))
        let back = DiskFileStore(root: fixture.scratch.url.appending(path: "b"))
        #expect(try await keys(back) == bytes(names))
        for name in names { #expect(try await back.load(name) == Data(name.utf8), "\(name)") }
        let listed = try await fixture.forge("file", "list", "--json", fixture.url)
        #expect(try bytes(rows(listed).compactMap { $0["key"] as? String }) == bytes(names))
        // Each of them is deleted, and no other.
        try fixture.scratch.plant("one/x", Data("x".utf8))
        let emptied = try await fixture.forge(
            "copy", "tree:\(fixture.scratch.path("one"))", fixture.url, "--delete", "--max-delete", "1000")
        #expect(emptied.status == 0, "\(emptied.errors)")
        #expect(try await boto3(fixture) == [Data("x".utf8)])
    }

    @Test("of the objects of another client, copied, skipped and failed are all that it lists")
    func foreignObjects() async throws {
        let fixture = try await S3Fixture()
        var names = HostileKeys.all.map(\.key) + HostileKeys.unevenNames
        names += (1..<0x80).map { "byte-" + String(UnicodeScalar(UInt8($0))) }
        names += ["2024//report.txt", "folder/", "d/", "d/e", " ", "+", "a b", "a+b", "%2F", "#tmp-abcdefghabcdefgh-1"]
        // The limit of S3, with the prefix.
        let limit = 1024 - fixture.prefix.utf8.count - "/app/".utf8.count
        let stored = Set(names.map { Data($0.utf8) }).filter { !$0.isEmpty && $0.count <= limit && !$0.contains(0) }
        let listed = try await boto3(fixture, storing: Array(stored))
        #expect(listed.isSubset(of: stored) && listed.count > stored.count * 9 / 10)
        let words = ["copy", fixture.url, "file:\(fixture.scratch.path("back"))", "--json", "--verify"]
        let run = try await ForgeRun(words, fixture.environment).ended()
        #expect(run.status == 2, "\(run.errors)")
        let (copied, others) = try tally(run)
        #expect(copied > 200 && others > 100)
        #expect(copied + others == listed.count, "\(run.lines.last ?? "")")
        let store = DiskFileStore(root: fixture.scratch.url.appending(path: "back"))
        let back = try await keys(store)
        #expect(back.count == copied && back.isSubset(of: listed))
        for key in back {
            let key = String(decoding: key, as: UTF8.self)
            #expect(try await store.load(key) == Data(key.utf8))
        }
    }

    // MARK: etcd

    @Test("of the keys of another client, of every byte, copied, skipped and failed are all that it counts")
    func foreignKeys() async throws {
        let scratch = try Scratch()
        let server = try await EtcdServer.shared()
        let gateway = Gateway(server)
        let prefix = Data("foreign-\(UUID().uuidString)/".utf8)
        var names: Set<Data> = [Data()]
        names.formUnion((0...UInt8.max).map { Data([$0]) })
        names.formUnion((0...UInt8.max).map { Data([0xC3, $0]) })
        names.formUnion(bytes(HostileKeys.unevenNames))
        names.formUnion(bytes(HostileKeys.all.map(\.key)).filter { $0.count <= 100_000 })
        let operations = names.map { name in
            let key = (prefix + name).base64EncodedString()
            // The value is the encoding of true.
            return
                "{\"request_put\":{\"key\":\"\(key)\",\"value\":\"\(Data([0x11, 0x01, 0xF5]).base64EncodedString())\"}}"
        }
        for start in stride(from: 0, to: operations.count, by: 100) {
            let part = operations[start..<min(start + 100, operations.count)].joined(separator: ",")
            try await gateway.post("/v3/kv/txn", "{\"success\":[\(part)]}")
        }
        var end = prefix
        end[end.endIndex - 1] += 1
        let answer = try await gateway.post(
            "/v3/kv/range",
            "{\"key\":\"\(prefix.base64EncodedString())\",\"range_end\":\"\(end.base64EncodedString())\",\"count_only\":true}"
        )
        #expect(answer.contains("\"count\":\"\(names.count)\""), "\(answer)")
        let place = "etcd://127.0.0.1:\(server.port)/\(String(decoding: prefix.dropLast(), as: UTF8.self))"
        let words = ["copy", place, "kv:\(scratch.path("kv"))", "--json", "--verify"]
        let run = try await ForgeRun(words, ["FORGE_DEADLINE": "60"]).ended()
        #expect(run.status == 2, "\(run.errors)")
        let (copied, others) = try tally(run)
        #expect(copied > 500 && others > 256)
        #expect(copied + others == names.count, "\(run.lines.last ?? "")")
        let store = try FileKVStore(at: scratch.url.appending(path: "kv"), options: .init(access: .readOnly))
        let kept = bytes(try store.keys())
        #expect(kept.count == copied && kept.isSubset(of: names))
        // Back, under another prefix, and from there.
        let other = "\(place)-back"
        for (from, to) in [("kv:\(scratch.path("kv"))", other), (other, "kv:\(scratch.path("again"))")] {
            let run = try await ForgeRun(["copy", from, to, "--verify"], ["FORGE_DEADLINE": "60"]).ended()
            #expect(run.status == 0, "\(run.output) \(run.errors)")
        }
        let again = try FileKVStore(at: scratch.url.appending(path: "again"), options: .init(access: .readOnly))
        #expect(bytes(try again.keys()) == kept)
    }

    // MARK: Output

    private func rows(_ run: ForgeRun.Result) throws -> [[String: Any]] {
        try run.output.utf8.split(separator: UInt8(ascii: "\n")).map { line in
            try #require(JSONSerialization.jsonObject(with: Data(line)) as? [String: Any])
        }
    }

    /// The number of items that were copied, and of those that were skipped or failed, according to the summary; the
    /// lines must list the latter.
    private func tally(_ run: ForgeRun.Result) throws -> (copied: Int, others: Int) {
        let rows = try rows(run)
        let summary = try #require(rows.last)
        func number(_ name: String) throws -> Int { try #require(summary[name] as? Int, "\(name)") }
        let others = try number("skipped") + number("failed")
        let lines = rows.filter { ["skip", "fail"].contains($0["action"] as? String) }
        #expect(lines.count == others)
        return (try number("copied"), others)
    }
}
#endif
