import ArgumentParser
import ChildProcesses
import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeCommands

/// A store as on servers: it takes small batches, its pages are those that are asked for, and another program has a key
/// in it that is no name.
private final class PagedStore: CommandKVStore {
    private let base = LocalAsyncKVStore(InMemoryKVStore())
    let longestPage = Mutex(0)
    /// The number of requests for values that run now, and the most that ever did.
    let lookUps = Mutex((now: 0, most: 0))
    /// The names whose values end with a lease.
    let leasedNames = Mutex<Set<String>>([])
    /// From how many values on a page fails.
    let limit: Int
    private let failure: KVStoreError.Code
    /// Whether pages are empty, as if more were to come.
    private let isStuck: Bool

    init(limit: Int = .max, failure: KVStoreError.Code = .unavailable(.server), isStuck: Bool = false) {
        (self.limit, self.failure, self.isStuck) = (limit, failure, isStuck)
    }

    func capabilities() async -> AsyncKVCapabilities {
        var capabilities = await base.capabilities()
        capabilities.maximumBatchSize = 128
        return capabilities
    }

    func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        lookUps.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        defer { lookUps.withLock { $0.now -= 1 } }
        // Requests take a while, so that all which may run at the same time do.
        for _ in 0..<1000 { await Task.yield() }
        return try await base.entry(named: name)
    }

    func leasedEntry(named name: String) async throws(KVStoreError) -> (entry: KVEntry, isLeased: Bool)? {
        guard let entry = try await entry(named: name) else { return nil }
        return (entry, leasedNames.withLock { $0.contains(name) })
    }

    func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        guard !isStuck else { return AsyncKVPage(names: [], hasMore: true) }
        return try await base.keys(prefix: prefix, after: after, limit: limit)
    }

    func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        guard limit < self.limit else { throw KVStoreError(failure, .keys) }
        longestPage.withLock { $0 = max($0, limit) }
        guard !isStuck else { return AsyncKVEntryPage(entries: [], hasMore: true) }
        var page = try await base.entries(prefix: prefix, after: after, limit: limit, at: revision)
        page.foreignKeys = [[0xFF]]
        return page
    }

    func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        guard batch.changes.count <= 128 else { throw KVStoreError(.tooLarge, .batch) }
        return try await base.commit(batch, timeToLive: timeToLive)
    }

    func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        base.changes(prefix: prefix, from: revision)
    }
}

@Suite("A key-value store that a verb has opened")
struct OpenedKVStoreTests {
    private func names(_ store: OpenedKVStore) async throws -> [String] {
        var names: [String] = []
        try await store.forEach { name, _ in names.append(name) }
        return names
    }

    private func fill(_ store: PagedStore, count: Int, size: Int = 1) async throws -> [String] {
        for number in 0..<count {
            var batch = KVBatch()
            batch.append(.set(name: String(10_000 + number), bytes: [UInt8](repeating: 1, count: size)))
            _ = try await store.commit(batch, timeToLive: nil)
        }
        return (0..<count).map { String(10_000 + $0) }
    }

    @Test("all values of a store on servers come in pages, each once, in the order of their bytes")
    func pages() async throws {
        let store = PagedStore()
        let expected = try await fill(store, count: 1500)
        #expect(try await names(OpenedKVStore(store)) == expected)
        #expect(try await OpenedKVStore(store).names() == expected)
        #expect(store.longestPage.withLock { $0 } == 1024)
        var foreign: [POSIXPath] = []
        try await OpenedKVStore(store).forEach({ _, _ in }, foreign: { foreign.append($0) })
        #expect(foreign == [POSIXPath([0xFF])])
    }

    @Test("a server whose pages stay empty does not keep a verb waiting")
    func emptyPages() async throws {
        let store = OpenedKVStore(PagedStore(isStuck: true))
        #expect(try await store.names().isEmpty)
        let error = await #expect(throws: KVStoreError.self) { try await names(store) }
        #expect(error?.code == .unavailable(.server))
    }

    @Test("pages are short while values are large")
    func largeValues() async throws {
        let store = PagedStore()
        let expected = try await fill(store, count: 40, size: 1 << 18)
        #expect(try await names(OpenedKVStore(store)) == expected)
        #expect(store.longestPage.withLock { $0 } == 16)
    }

    @Test(
        "a page that fails is asked for again with fewer values, and then the error is thrown",
        arguments: [KVStoreError.Code.unavailable(.server), .tooLarge, .timeout])
    func failingPages(_ failure: KVStoreError.Code) async throws {
        let store = PagedStore(limit: 100, failure: failure)
        let expected = try await fill(store, count: 200)
        #expect(try await names(OpenedKVStore(store)) == expected)
        let broken = OpenedKVStore(PagedStore(limit: 1, failure: failure))
        await #expect(throws: KVStoreError.self) { try await names(broken) }
    }

    @Test("up to 16 values are read at the same time, in the order of their names")
    func lookUps() async throws {
        let store = PagedStore()
        let names = try await fill(store, count: 50)
        let found = try await OpenedKVStore(store).entries(named: names.reversed() + ["none"])
        #expect(found.count == 51 && found.last == .some(nil))
        #expect(store.lookUps.withLock { $0.most } == 16)
        var revisions: [UInt64?] = []
        for name in names.reversed() { revisions.append(try await store.entry(named: name)?.revision) }
        #expect(Set(revisions).count == 50 && found.dropLast().map { $0?.entry.revision } == revisions)
        try await OpenedKVStore(store).remove(names[0])
        #expect(try await OpenedKVStore(store).names() == Array(names.dropFirst()))
    }

    @Test("equal bytes are kept, unless they end with a lease")
    func leases() async throws {
        let store = PagedStore()
        let names = try await fill(store, count: 2)
        store.leasedNames.withLock { $0 = [names[1]] }
        let found = try await OpenedKVStore(store).entries(named: names)
        #expect(found.map { $0?.isLeased } == [false, true])
        #expect(found.map { $0?.keeps([1]) } == [true, false])
        #expect(found.map { $0?.keeps([2]) } == [false, false])
    }

    @Test("the names of a local store are listed in slices, each once", arguments: [1, 3, 4, 5, 8, 9, 100])
    func slices(count: Int) async throws {
        let scratch = try Scratch()
        let local = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        let expected = (10..<18).map { "key.\($0)" }
        for name in expected.reversed() { try local.set(KVKey<Int>(name), value: 1) }
        let store = OpenedKVStore(local, sliceCount: count)
        #expect(try await store.names() == expected)
        #expect(try await names(store) == expected)
    }

    @Test("a local store is changed, flushed and closed, and belongs to no cluster")
    func local() async throws {
        let scratch = try Scratch()
        let url = scratch.url.appendingPathComponent("kv")
        let store = OpenedKVStore(try FileKVStore(at: url))
        #expect(try await store.isEmpty())
        var batch = KVBatch()
        for name in ["b", "a", "c"] { batch.append(.set(name: name, bytes: [1])) }
        try await store.commit(batch)
        try await store.remove("b")
        #expect(try await !store.isEmpty())
        let found = try await store.entries(named: ["c", "b"])
        #expect(found.count == 2 && found[0]?.keeps([1]) == true && found[1] == nil)
        #expect(try await store.cluster() == nil)
        #expect(try await store.maximumBatchSize() == .max)
        try store.finish()
        try store.close()
        let closed = await #expect(throws: KVStoreError.self) { try await store.remove("a") }
        #expect(closed?.code == .unavailable(.closed))
        let again = try FileKVStore(at: url)
        #expect(try again.keys().sorted() == ["a", "c"])
        withExtendedLifetime(store) {}
    }

    @Test("a value that is set in a local store is flushed, the first one and each later one")
    func flush() async throws {
        let flushes = Mutex(0)
        let device = InterceptedFileSystem(InMemoryFileSystem()) { (call) throws(FileSystemError) in
            if call.operation == .synchronize { flushes.withLock { $0 += 1 } }
        }
        let store = OpenedKVStore(try FileKVStore(at: "/kv", fileSystem: device))
        for value in ["1", "2"] {
            let before = flushes.withLock { $0 }
            try await KVCommand.Set.parse(["store", "key", value]).setValue(in: store)
            let after = flushes.withLock { $0 }
            #expect(after > before, "\(value)")
        }
    }

    @Test("a local store throws its own errors, also over the asynchronous protocol")
    func localErrors() async throws {
        let scratch = try Scratch()
        try FileKVStore(at: scratch.url.appendingPathComponent("kv")).close()
        let store = OpenedKVStore(
            try FileKVStore(
                at: scratch.url.appendingPathComponent("kv"), options: FileKVStore.Options(access: .readOnly)))
        var batch = KVBatch()
        batch.append(.set(name: "a", bytes: [1]))
        let error = await #expect(throws: KVStoreError.self) { try await store.commit(batch) }
        #expect(error?.code == .readOnly)
    }

    @Test("a batch refuses an item when it is full, or has its key")
    func batches() {
        var batch = KeyValueBatch(limit: 2)
        #expect(!batch.refuses("a", [UInt8](repeating: 0, count: 2 << 20)))
        batch.append("e\u{301}", [1])
        #expect(batch.refuses("e\u{301}", [2]))
        #expect(!batch.refuses("\u{E9}", [2]))
        // With its names, a batch has up to a mebibyte: 4 bytes are in it.
        #expect(!batch.refuses("b", [UInt8](repeating: 0, count: (1 << 20) - 5)))
        #expect(batch.refuses("b", [UInt8](repeating: 0, count: (1 << 20) - 4)))
        batch.append("\u{E9}", [2])
        #expect(batch.refuses("c", []))
        batch.removeAll()
        #expect(!batch.refuses("c", []))
        batch.append("c", [])
        #expect(!batch.refuses("\u{E9}", [UInt8](repeating: 0, count: (1 << 20) - 3)))
    }
}

@Suite("Lines of keys and values")
struct KeyValueLineTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func home(_ text: String) throws -> Home { try #require(Home(argument: text)) }

    /// The keys of a source, each with the reason why it cannot be read.
    private func items(_ source: KeyValueSource) async throws -> [String] {
        var items: [String] = []
        try await source.forEach { key, bytes in
            switch bytes {
            case .success: items.append(key)
            case .failure(let failure): items.append("\(key): \(failure)")
            }
        }
        return items
    }

    @Test("each line that has no key or value is a failure with its number and reason, and the others are copied")
    func failures() throws {
        let tooDeep = String(repeating: "[", count: 65) + String(repeating: "]", count: 65)
        let lines = [
            #"{"key":"a","value":1}"#, "", " \t\r", "\u{FF}", #"{"key":2,"value":1}"#, #"{"key":"b","base64":"!"}"#,
            #"{"key":"b"}"#, #"{"key":"b","value":1,"version":-1}"#, #"{"key":"b","value":1,"version":4294967296}"#,
            #"{"key":"b","value":1,"version":"2"}"#, #"{"key":"b","value":1,"x":1}"#,
            #"{"key":"b","value":\#(tooDeep)}"#, #"{"key":"c","version":4294967295,"value":3}"#,
        ]
        // The character is one byte, which is no UTF-8.
        let bytes = lines.joined(separator: "\n").data(using: .isoLatin1)
        try scratch.plant("lines", try #require(bytes))
        let number = "\"version\" is not a 32-bit unsigned integer"
        let expected = [
            "line 4: not valid UTF-8", "line 5: no \"key\" that is a string", "line 6: \"base64\" is not base64",
            "line 7: neither \"value\" nor \"base64\"", "line 8: \(number)", "line 9: \(number)",
            "line 10: \(number)", "line 11: a member other than \"key\", \"value\", \"version\" and \"base64\"",
            "line 12: not a JSON object: decode: more than 64 levels of nesting",
        ]
        let words = ["copy", "json:\(scratch.path("lines"))"]
        let run = try CommandRun(words + ["kv:\(scratch.path("kv"))", "--json"])
        #expect(run.status == 2, "\(run.errors)")
        let rows = try run.rows().map { "\($0["key"] as? String ?? ""): \($0["reason"] as? String ?? "")" }
        #expect(rows == expected)
        // Lines on standard output are written at once; a file of an incomplete source is not.
        let text = try CommandRun(words + ["json:-"])
        #expect(text.status == 2 && text.output == "\(lines[0])\n\(lines[12])\n", "\(text.output)")
        #expect(text.errors.hasSuffix(", 0 equal, 9 failed\nError: 9 items failed, 2 did not\n"), "\(text.errors)")
    }

    @Test("a member of an object that is no value is a failure, and the deepest value is none")
    func members() async throws {
        for (depth, last) in [(64, "c"), (65, "line 1: not a JSON object: decode: more than 64 levels of nesting")] {
            let value = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            let object = #"{"a":{"@schema":-1,"@value":1},"b":{"@schema":1},"c":\#(value)}"#
            try scratch.plant("object", object)
            let start = depth == 64 ? ["a: \"@schema\" is not a 32-bit unsigned integer", "b"] : []
            let found = try await items(.lines(home("json:\(scratch.path("object"))")))
            #expect(found.sorted() == start + [last])
        }
    }

    @Test("a source knows its size if it is a store, and closes its file")
    func sizes() async throws {
        try scratch.plant("lines", #"{"key":"a","value":1}"#)
        let (lines, damage) = try KeyValueSource.open(home("json:\(scratch.path("lines"))"))
        #expect(damage.isEmpty)
        #expect(try await items(lines) == ["a"])
        #expect(try await lines.count() == nil)
        #expect(try await !lines.isEmpty())
        #if os(Linux)
        #expect(try scratch.opened().isEmpty)
        #endif
        for count in [0, 3] {
            let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv\(count)"))
            for number in 0..<count { try store.set(KVKey<Int>("key.\(number)"), value: 1) }
            try store.close()
            let source = try KeyValueSource.open(home("kv:\(scratch.path("kv\(count)"))")).0
            #expect(try await source.count() == count)
            #expect(try await source.isEmpty() == (count == 0))
        }
    }

    @Test("lines that cannot be opened or read are an error with the message of the system")
    func unreadable() async throws {
        for (name, text) in [
            ("none", "cannot open \(scratch.path("none")): No such file or directory (ENOENT)"),
            (".", "cannot read the lines: Is a directory (EISDIR)"),
        ] {
            let failure = await #expect(throws: CommandFailure.self) {
                try await items(.lines(home("json:\(scratch.path(name))")))
            }
            #expect(failure?.description == text)
        }
        let other = #expect(throws: CommandFailure.self) {
            try CommandFailure.naming("a") { () throws -> Int in throw FileSystemError(.open, .ioError) }
        }
        #expect(other?.description == "a: \(FileSystemError(.open, .ioError))" && other?.status == .failure)
        #expect(FileSystemError(.open, .ioError).shownPath == "")
    }

    @Test("lines are written once each, however many they are")
    func manyLines() async throws {
        let place = try home("json:\(scratch.path("lines"))")
        var target = try LinesTarget(place)
        #expect(!target.isReplacement)
        let value = CodedValue.string(String(repeating: "v", count: 40_000))
        let bytes = ValueEnvelope(schemaVersion: 1, payload: try value.encoded()).encoded
        for number in 0..<5 { try target.set("key.\(number)", bytes) }
        try target.finish()
        #expect(try await items(.lines(place)) == (0..<5).map { "key.\($0)" })
        #expect(try LinesTarget(place).isReplacement)
        #expect(try !LinesTarget(home("json:-")).isReplacement)
    }

    @Test("lines to standard output are rehearsed in the directory of a store, too")
    func rehearsal() throws {
        #expect(try CommandRun(["kv", "set", scratch.path("kv"), "a", "1"]).status == 0)
        let run = try CommandRun(
            ["copy", "kv:.", "json:-", "--dry-run"],
            prefix: ["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", scratch.path("kv")])
        #expect(run.status == 0 && run.output.isEmpty, "\(run.output) \(run.errors)")
        #expect(run.errors == "copy  kv:.#a → json:-#a\n1 to copy (3 B), 0 equal\n")
    }

    private func withReader(_ text: String, limit: Int = 1 << 20, _ body: (inout LineReader) throws -> Void) throws {
        try scratch.plant("text", text)
        let file = try FileDescriptor.open(FilePath(scratch.path("text")), .readOnly)
        try file.closeAfter {
            var reader = LineReader(file, limit: limit)
            try body(&reader)
        }
    }

    @Test("lines of any length are read, with or without a line feed at the end")
    func lengths() throws {
        let texts = [70_000, 1, 0, 200_000, 65_536, 65_535, 3].map { String(repeating: "x", count: $0) }
        for end in ["", "\n"] {
            try withReader(texts.joined(separator: "\n") + end) { reader in
                var found: [String] = []
                while let line = try reader.next() { found.append(String(decoding: line, as: UTF8.self)) }
                #expect(found == texts)
                let after = try reader.next()
                #expect(after == nil)
            }
        }
    }

    @Test("a line that is longer than the limit is an error", arguments: [65_535, 65_536])
    func limit(_ limit: Int) throws {
        // It fills the first read.
        try withReader(String(repeating: "x", count: 65_536) + "\n", limit: limit) { reader in
            do {
                let line = try reader.next()
                #expect(limit == 65_536 && line?.count == 65_536)
            } catch {
                #expect(limit == 65_535 && "\(error)" == "a line is longer than \(readableSize(limit))")
            }
        }
    }

    @Test("control-C ends a copy of lines that are still coming")
    func interrupted() throws {
        let path = scratch.path("pipe")
        try #require(mkfifo(path, 0o600) == 0)
        // Open at both ends, so that no write fails.
        let pipe = open(path, O_RDWR | O_NONBLOCK)
        try #require(pipe >= 0)
        let errors = try ChildProcess.unnamedFile()
        let copy = try ChildProcess(
            CommandRun.executable(), ["copy", "json:\(path)", "kv:\(scratch.path("kv"))"], output: .null,
            errors: .file(errors))
        var number = 0
        /// Writes lines until the command has read most of them, or has ended.
        func feed(_ count: Int) {
            let end = number + count
            while number < end, copy.isRunning {
                let lines = (number..<number + 100).map { "{\"key\":\"key.\($0)\",\"value\":1}\n" }
                let bytes = Array(lines.joined().utf8)
                if write(pipe, bytes, bytes.count) > 0 { number += 100 } else { usleep(200) }
            }
        }
        // More than the pipe holds, so that the command has begun to read.
        feed(10_000)
        copy.send(SIGINT)
        feed(10_000)
        close(pipe)
        #expect(copy.wait(killingAfter: .seconds(60)) == .exit(130))
        #expect(String(decoding: try ChildProcess.content(of: errors), as: UTF8.self) == "Error: interrupted\n")
    }
}
