#if Etcd
import EtcdServers
import ForgeFileSystem
import ForgeKVStore
import Foundation
import Metrics
import MetricsTestKit
import NIOCore
import ServerTestSupport
import Testing
@testable import ForgeEtcd
@testable import ForgeHTTP

@Suite("Parts of the store in etcd")
struct EtcdUnitTests {
    @Test(
        "watches of servers from 3.4.36 and 3.5.18 on report every event",
        arguments: [
            ("3.4.23", false), ("3.4.35", false), ("3.4.36", true), ("3.5.0", false), ("3.5.17", false),
            ("3.5.18", true), ("3.6.0-rc.1", true), ("3.3.99", false), ("4.0.0", true),
        ])
    func versions(_ text: String, _ replays: Bool) throws {
        #expect(try #require(EtcdVersion(text)).replaysChanges == replays)
    }

    @Test("other texts are no version", arguments: ["", "3.4", "3.4.x", "v3.4.1", "3..1"])
    func noVersion(_ text: String) {
        #expect(EtcdVersion(text) == nil)
    }

    @Test("waits are random below a limit that doubles up to a second", arguments: 0..<8)
    func backoff(_ attempts: Int) throws {
        let limit = min(Duration.seconds(1), .milliseconds(25) * (1 << attempts))
        var generator = SystemRandomNumberGenerator()
        let waits = (0..<300).map { _ in
            var backoff = Backoff()
            for _ in 0..<attempts { _ = backoff.next(using: &generator) }
            return backoff.next(using: &generator)
        }
        #expect(waits.allSatisfy { $0 >= .zero && $0 <= limit })
        #expect(try #require(waits.min()) < limit * 0.1)
        #expect(try #require(waits.max()) > limit * 0.9)
    }

    @Test("the end of a prefix is the next key without it")
    func ranges() throws {
        let names = EtcdNames(prefix: "f/")
        #expect(names.end(of: "a") == Data("f/b".utf8))
        #expect(names.end(of: "\u{7F}") == Data([0x66, 0x2F, 0x80]))
        #expect(EtcdNames(prefix: "").end(of: "") == Data([0]))
        #expect(EtcdNames(prefix: "").start(of: "") == Data([0]))
        #expect(names.name(of: Data([0x66, 0x2F, 0xFF])) == nil)
        #expect(names.name(of: Data("g/a".utf8)) == nil)
        #expect(names.name(of: Data("f/".utf8 + [UInt8](repeating: 0x78, count: 1024))) != nil)
        #expect(names.name(of: Data("f/".utf8 + [UInt8](repeating: 0x78, count: 1025))) == nil)
        #expect(names.storeID(in: "7") != EtcdNames(prefix: "g/").storeID(in: "7"))
        #expect(names.name(of: try names.key(of: "e\u{301}", .read)).map { Array($0.utf8) } == Array("e\u{301}".utf8))
        #expect(throws: KVStoreError.self) { try EtcdNames(prefix: "").key(of: "", .read) }
    }

    @Test("a refusal has its meaning, and a write that may have been applied is unknown")
    func refusals() {
        func code(_ words: String, _ number: Int?, isWrite: Bool = true) -> KVStoreError.Code {
            EtcdFailure(words, grpcCode: number, isWrite: isWrite).code
        }
        #expect(code("etcdserver: permission denied", 7) == .refused)
        #expect(code("etcdserver: request is too large", 3) == .tooLarge)
        #expect(code("etcdserver: requested lease not found", 5) == .leaseLost)
        #expect(code("etcdserver: no leader", 14) == .unavailable(.server))
        #expect(code("etcdserver: request timed out", 14) == .unknownOutcome)
        #expect(code("etcdserver: leader changed", 14) == .unknownOutcome)
        #expect(code("etcdserver: request timed out", 14, isWrite: false) == .unavailable(.server))
        #expect(code("status 502", nil) == .unknownOutcome)
        #expect(EtcdFailure("etcdserver: leader changed", grpcCode: 14, isWrite: true).repetition == .never)
        #expect(EtcdFailure("etcdserver: invalid auth token", grpcCode: 16, isWrite: true).repetition == .afterLogIn)
    }

    @Test("trusted certificates that cannot be read are refused, with their path")
    func missingCertificates() {
        var missing = EtcdKVStore.Configuration.test("https://127.0.0.1:1")
        missing.tls.trustRootsPath = "/missing.pem"
        let configuration = missing
        let error = #expect(throws: KVStoreError.self) { _ = try EtcdKVStore(configuration) }
        #expect(error?.code == .refused && error?.detail?.contains("/missing.pem") == true)
    }

    @Test("a closed store refuses a batch, also one without changes")
    func closed() async throws {
        let store = try EtcdKVStore(.test("http://127.0.0.1:1"))
        await store.close()
        var changed = KVBatch()
        try changed.set(KVKey<Int>("a"), value: 1)
        for batch in [changed, KVBatch()] {
            let error = await #expect(throws: KVStoreError.self) { try await store.commit(batch, timeToLive: nil) }
            #expect(error?.code == .unavailable(.closed))
        }
    }

    @Test("lines are complete, however the chunks are cut")
    func lines() throws {
        let text = Array("{\"a\":1}\n\n{\"b\":2}\n".utf8)
        for cut in 0...text.count {
            var lines = EtcdLines()
            let first = try lines.append(ByteBuffer(bytes: text[..<cut]))
            let found = try first + lines.append(ByteBuffer(bytes: text[cut...]))
            #expect(found == [Data("{\"a\":1}".utf8), Data("{\"b\":2}".utf8)])
        }
    }

    @Test("a line without an end is refused, and no memory beyond the limit is used")
    func endlessLine() throws {
        var lines = EtcdLines()
        let chunk = ByteBuffer(repeating: UInt8(ascii: "x"), count: 1 << 20)
        for _ in 0..<64 { #expect(try lines.append(chunk).isEmpty) }
        #expect(throws: KVStoreError.self) { try lines.append(chunk) }
    }

    @Test("numbers of 64 bits are strings, and may be numbers")
    func numbers() throws {
        let number = try JSONDecoder().decode([EtcdInteger].self, from: Data("[\"9223372036854775807\", 7]".utf8))
        #expect(number.map(\.value) == [.max, 7])
        #expect(
            String(decoding: try JSONEncoder().encode([EtcdInteger(.max)]), as: UTF8.self)
                == "[\"9223372036854775807\"]")
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([EtcdInteger].self, from: Data("[\"x\"]".utf8))
        }
    }

    @Test("a password is not in the description of a configuration")
    func password() {
        var configuration = EtcdKVStore.Configuration(endpoints: ["http://127.0.0.1:1"])
        configuration.credentials = .init(user: "root", password: "hidden-7")
        var text = ""
        dump(configuration, to: &text)
        #expect(!text.contains("hidden-7") && !"\(configuration)".contains("hidden-7"))
    }
}

@Suite("The state of a watch in etcd")
struct EtcdWatchStateTests {
    private let names = EtcdNames(prefix: "f/")

    private func message(_ json: String) throws -> EtcdWatchResponse {
        try JSONDecoder().decode(EtcdWatchResponse.self, from: Data(json.utf8))
    }

    private let created = #"{"header":{"revision":"5"},"created":true}"#
    private let event =
        #"{"header":{"revision":"9"},"events":[{"kv":{"key":"Zi9h","mod_revision":"7","value":"MQ=="}}]}"#
    private let progress = #"{"header":{"revision":"20"}}"#

    @Test("without a revision it begins with a resync and continues after the last event")
    func beginning() throws {
        var state = EtcdWatchState(names, after: nil, replays: true)
        #expect(state.next == nil)
        #expect(state.receive(try message(created)) == .changes([.resync]))
        #expect(state.next == 6)
        let entry = KVEntry(bytes: [0x31], revision: 7)
        #expect(state.receive(try message(event)) == .changes([.changed(name: "a", entry: entry, revision: 7)]))
        #expect(state.next == 8)
        state.interrupt()
        #expect(state.next == 8)
        #expect(state.receive(try message(#"{"header":{"revision":"9"},"created":true}"#)) == .changes([]))
    }

    @Test("inside a transaction the position is before it, also when its message is split")
    func transaction() throws {
        func events(_ revisions: [Int], isSplit: Bool = false) throws -> EtcdWatchResponse {
            let events = revisions.map { #"{"kv":{"key":"Zi9h","mod_revision":"\#($0)"}}"# }.joined(separator: ",")
            return try message(#"{"header":{"revision":"9"},"fragment":\#(isSplit),"events":[\#(events)]}"#)
        }
        func positions(_ output: EtcdWatchState.Output) -> [UInt64?] {
            guard case .changes(let changes) = output else { return [] }
            return changes.map { if case .changed(_, _, let revision) = $0 { revision } else { nil } }
        }
        var state = EtcdWatchState(names, after: 5, replays: true)
        #expect(positions(state.receive(try events([7, 7, 8], isSplit: true))) == [6, 7])
        #expect(state.next == 8)
        #expect(positions(state.receive(try events([8, 8, 9]))) == [7, 7, 8, 9])
        #expect(state.next == 10)
    }

    @Test("a transaction whose message is cut is reported as a whole by the next connection")
    func cutTransaction() throws {
        func events(_ names: String..., isSplit: Bool = false) throws -> EtcdWatchResponse {
            let events = names.map { name in
                let key = Data("f/\(name)".utf8).base64EncodedString()
                let type = name == "removed" ? #""type":"DELETE","# : ""
                return #"{\#(type)"kv":{"key":"\#(key)","mod_revision":"7"}}"#
            }
            return try message(
                #"{"header":{"revision":"9"},"fragment":\#(isSplit),"events":[\#(events.joined(separator: ","))]}"#)
        }
        var state = EtcdWatchState(names, after: 5, replays: true)
        #expect(state.receive(try events("removed", "a", isSplit: true)) == .changes([]))
        #expect(state.next == 7 && state.reported == 6)
        state.interrupt()
        #expect(state.receive(try message(#"{"header":{"revision":"9"},"created":true}"#)) == .changes([]))
        #expect(state.next == 7)
        let entry = KVEntry(bytes: [], revision: 7)
        #expect(
            state.receive(try events("removed", "a", "b"))
                == .changes([
                    .changed(name: "removed", entry: nil, revision: 6), .changed(name: "a", entry: entry, revision: 6),
                    .changed(name: "b", entry: entry, revision: 7),
                ]))
        #expect(state.next == 8)
    }

    @Test("nothing of a message with an invalid event is reported")
    func partlyInvalidMessage() throws {
        var state = EtcdWatchState(names, after: 3, replays: true)
        let events = [4, 0].map { #"{"kv":{"key":"Zi9h","mod_revision":"\#($0)"}}"# }.joined(separator: ",")
        #expect(state.receive(try message(#"{"events":[\#(events)]}"#)) == .interrupted)
        #expect(state.next == 4)
    }

    @Test("events without a valid revision end the connection", arguments: ["0", "-1", "9223372036854775807"])
    func invalidRevision(_ number: String) throws {
        var state = EtcdWatchState(names, after: 3, replays: true)
        let event = #"{"events":[{"kv":{"key":"Zi9h","mod_revision":"\#(number)"}}]}"#
        #expect(state.receive(try message(event)) == .interrupted)
    }

    @Test("from a revision it continues without a resync")
    func replay() throws {
        var state = EtcdWatchState(names, after: 3, replays: true)
        #expect(state.next == 4)
        #expect(state.receive(try message(created)) == .changes([]))
        #expect(state.next == 4)
    }

    @Test("an old server's watch begins with a resync after every interruption")
    func oldServer() throws {
        var state = EtcdWatchState(names, after: 3, replays: false)
        #expect(state.next == nil)
        #expect(state.receive(try message(created)) == .changes([.resync]))
        state.interrupt()
        #expect(state.next == nil)
        #expect(state.receive(try message(created)) == .changes([.resync]))
    }

    @Test("progress notices count on servers that order them, and no others")
    func notices() throws {
        for (replays, next) in [(true, UInt64(21)), (false, 6)] {
            var state = EtcdWatchState(names, after: nil, replays: replays)
            _ = state.receive(try message(created))
            #expect(state.receive(try message(progress)) == .changes([]))
            #expect(state.next == next)
        }
    }

    @Test("after a compaction it begins with a resync")
    func compaction() throws {
        var state = EtcdWatchState(names, after: 3, replays: true)
        #expect(state.receive(try message(#"{"canceled":true,"compact_revision":"10"}"#)) == .interrupted)
        #expect(state.next == nil)
        #expect(state.receive(try message(created)) == .changes([.resync]))
    }

    @Test("another cluster, or one that has lost its history, leads to a resync; a member that lags behind does not")
    func otherCluster() throws {
        func created(_ revision: Int, _ cluster: String) throws -> EtcdWatchResponse {
            try message(#"{"header":{"cluster_id":"\#(cluster)","revision":"\#(revision)"},"created":true}"#)
        }
        var state = EtcdWatchState(names, after: 20, replays: true)
        #expect(state.receive(try created(20, "1")) == .changes([]))
        #expect(state.receive(try created(30, "2")) == .interrupted)
        #expect(state.next == nil)
        #expect(state.receive(try created(30, "2")) == .changes([.resync]))
        #expect(state.next == 31)
        for _ in 0..<3 { #expect(state.receive(try created(29, "2")) == .interrupted) }
        #expect(state.receive(try created(30, "2")) == .changes([]))
        #expect(state.next == 31)
        for _ in 0..<4 { #expect(state.receive(try created(3, "2")) == .interrupted) }
        #expect(state.next == nil)
        #expect(state.receive(try created(3, "2")) == .changes([.resync]))
    }

    @Test("what is reported is complete up to a revision, inside a transaction up to the one before")
    func completeness() throws {
        var state = EtcdWatchState(names, after: nil, replays: true)
        #expect(state.reported == nil)
        _ = state.receive(try message(created))
        #expect(state.reported == 5)
        _ = state.receive(
            try message(
                #"{"header":{"revision":"9"},"fragment":true,"events":[{"kv":{"key":"Zi9h","mod_revision":"7"}}]}"#))
        #expect(state.reported == 6)
        _ = state.receive(try message(event))
        #expect(state.reported == 7)
        _ = state.receive(try message(progress))
        #expect(state.reported == 20)
    }

    @Test("missing rights are reported with the server's reason")
    func rights() throws {
        var state = EtcdWatchState(names, after: nil, replays: true)
        let refusal = try message(#"{"canceled":true,"cancel_reason":"permission denied"}"#)
        #expect(state.receive(refusal) == .notPermitted("permission denied"))
    }
}

@Suite("Metrics of the store in etcd", .enabled(if: EtcdServer.isInstalled))
struct EtcdTelemetryTests {
    @Test("the duration of a call is recorded with its operation, and the reason of a failure")
    func durations() async throws {
        let metrics = SharedMetrics.metrics
        let store = try EtcdKVStore(.test(try await EtcdServer.shared().endpoint))
        try await store.set(KVKey<Int>("a"), value: 1)
        let common = [("db.system.name", "etcd"), ("db.operation.name", "batch")]
        let name = "db.client.operation.duration"
        #expect(try metrics.expectTimer(name, common).values.isEmpty == false)

        var configuration = EtcdKVStore.Configuration(endpoints: ["http://127.0.0.1:\(try LoopbackSocket.freePort())"])
        // Enough time for a refused connection on a busy machine.
        configuration.deadline = .seconds(2)
        await #expect(throws: KVStoreError.self) {
            try await EtcdKVStore(configuration).set(KVKey<Int>("a"), value: 1)
        }
        let failed = common + [("error.type", "unavailable: server error")]
        #expect(try metrics.expectTimer(name, failed).values.isEmpty == false)
    }
}
#endif
