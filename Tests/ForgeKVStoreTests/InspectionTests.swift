import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing
@testable import ForgeKVStore

@Suite("An inspection of a log") struct InspectionTests {
    private let memory = InMemoryFileSystem()
    private let directory = URL(filePath: "/store")

    /// Creates a log of ten keys; returns it and the offset of a byte in its first record.
    private func makeLog() throws -> (content: [UInt8], position: Int) {
        let store = try FileKVStore(at: "/store", fileSystem: memory)
        for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        withExtendedLifetime(store) {}
        return (try memory.readFile("/store/log"), LogHeader.size + 25)
    }

    private func write(_ bytes: [UInt8], at offset: Int) throws(FileSystemError) {
        let file = try memory.open("/store/log", .writeOnly)
        try memory.writeBytes(bytes, to: file, at: Int64(offset))
        try memory.close(file)
    }

    @Test("does not report bytes stored during the read")
    func lateBytes() throws {
        let (content, position) = try makeLog()
        try write([content[position] ^ 1], at: position)
        let reads = Atomic(0)
        let racing = InterceptedFileSystem(memory) { call throws(FileSystemError) in
            // The header, the records, and the header again.
            guard call.operation == .read, reads.wrappingAdd(1, ordering: .relaxed).newValue == 3 else { return }
            try write(content, at: 0)
        }
        let inspection = try #require(try KVInspection(of: directory, fileSystem: racing))
        #expect(inspection.problems.isEmpty, "\(inspection.problems)")
        #expect(inspection.keyCount == 10)
    }

    @Test("reports a log that ends within its first record", arguments: [1, 19, 20, 30, 200])
    func cutWithinFirstRecord(_ size: Int) throws {
        do {
            let store = try FileKVStore(at: "/store", fileSystem: memory)
            try store.batch { batch in
                for number in 0..<100 { try batch.set(KVKey<Int>("key.\(number)"), value: number) }
            }
        }
        let file = try memory.open("/store/log", .readWrite)
        try memory.truncate(.descriptor(file), to: Int64(LogHeader.size + size))
        try memory.close(file)
        let inspection = try #require(try KVInspection(of: directory, fileSystem: memory))
        #expect(inspection.problems.count == 1 && inspection.notes.isEmpty, "\(inspection)")
        #expect(inspection.keyCount == 0)
    }

    @Test("is of a log that exists and can be read")
    func unreadable() throws {
        #expect(try KVInspection(of: directory, fileSystem: memory) == nil)
        let url = try #require(URL(string: "https://example.org/store"))
        let foreign = #expect(throws: KVStoreError.self) { try KVInspection(of: url, fileSystem: memory) }
        #expect(foreign?.code == .unavailable(.inputOutput) && foreign?.operation == .open)
        _ = try makeLog()
        let failing = FailingFileSystem(memory)
        failing.fail(.read)
        #expect(code { _ = try KVInspection(of: directory, fileSystem: failing) } == .unavailable(.inputOutput))
        failing.fail(nil)
        let inspection = try #require(try KVInspection(of: directory, fileSystem: failing))
        let expected = try #require(try KVInspection(of: directory, fileSystem: memory))
        #expect(inspection.keyCount > 0 && inspection.keyCount == expected.keyCount)
        #expect(inspection.recordCount == expected.recordCount)
        #expect(inspection.sizeInBytes == (try memory.status("/store/log").sizeInBytes))
    }

    @Test("is of a file that is recognised by its magic number, or by its identifier, which its header has twice")
    func recognition() throws {
        func isLog(_ bytes: [UInt8]) -> Bool { FileKVStore.isLog(startingWith: bytes) }
        let header = Array(try makeLog().content.prefix(LogHeader.size))
        for count in 1...LogHeader.size { #expect(isLog(Array(header.prefix(count))), "\(count)") }
        var withoutMagic = header
        withoutMagic[0] ^= 1
        #expect(isLog(withoutMagic) && isLog(withoutMagic + [1]))
        #expect(!isLog(Array(withoutMagic.dropLast())))
        var withoutIdentifier = header
        withoutIdentifier[16] ^= 1
        #expect(isLog(withoutIdentifier))
        withoutIdentifier[0] ^= 1
        #expect(!isLog(withoutIdentifier))
        #expect(!isLog([]) && !isLog([UInt8](repeating: 0, count: LogHeader.size)))
        for (place, isRecognised) in [(36, true), (59, true)] {
            var damaged = withoutMagic
            damaged[place] = 1
            #expect(isLog(damaged) == isRecognised, "\(place)")
            damaged[place == 36 ? 59 : 36] = 1
            #expect(!isLog(damaged), "\(place)")
        }
        for text in ["started\n", "=", "xxxx", "a line of 24 characters\n"] {
            #expect(!isLog(Array(String(repeating: text, count: 100).utf8)), "\(text)")
        }
    }

    @Test("finds nothing wrong with a log without records")
    func noRecord() throws {
        try withExtendedLifetime(try FileKVStore(at: "/store", fileSystem: memory)) {
            let inspection = try #require(try KVInspection(of: directory, fileSystem: memory))
            #expect(inspection.problems.isEmpty && inspection.notes.isEmpty, "\(inspection)")
        }
    }

    @Test("counts the records, and the keys that have a value")
    func counts() throws {
        let store = try FileKVStore(at: "/store", fileSystem: memory)
        for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
        for name in ["b", "c", "x"] { try store.remove(KVKey<Int>(name)) }
        try store.set(KVKey<Int>("c"), value: 2)
        let inspection = try #require(try KVInspection(of: directory, fileSystem: memory))
        #expect(inspection.recordCount == 6 && inspection.keyCount == 2, "\(inspection)")
        try store.removeAll()
        try store.set(KVKey<Int>("d"), value: 1)
        #expect(try KVInspection(of: directory, fileSystem: memory)?.keyCount == 1)
    }

    @Test("names each kind of damage, and its place")
    func texts() throws {
        let fixture = LogFixture()
        var ends = [LogHeader.size]
        var open: [UInt8] = []
        do {
            let store = try fixture.open()
            for number in 1...5 {
                try store.set(KVKey<Int>("key.\(number)"), value: number)
                open = try fixture.bytes()
                ends.append(open.count)
            }
        }
        let closed = try fixture.bytes()
        func altered(_ bytes: [UInt8], at offset: Int) -> [UInt8] {
            var bytes = bytes
            bytes[offset] ^= 0xFF
            return bytes
        }
        let logs: [([UInt8], problems: [String], notes: [String])] = [
            (open, [], []), (closed, [], []),
            (Array(open.dropLast()), [], ["an unfinished record at byte \(ends[4])"]),
            (altered(open, at: ends[2] + 22), ["2 intact records behind a bad one at byte \(ends[2])"], []),
            (altered(closed, at: ends[2] + 22), ["damaged records at bytes \(ends[2]) to \(ends[3])"], []),
            (
                Array(closed[..<ends[2]] + closed[ends[3]...]), ["records are missing at byte \(ends[2])"], []
            ),
            (altered(closed, at: 0), ["the header of the log is damaged"], []),
            (Array(closed.prefix(10)), [], ["a log whose creation was interrupted"]),
            (
                Array(open.prefix(ends[1] - 1)),
                ["the first record is incomplete or damaged, and no other one follows"], []
            ),
        ]
        for (number, log) in logs.enumerated() {
            try fixture.replace(log.0)
            let inspection = try #require(try KVInspection(of: directory, fileSystem: fixture.fileSystem))
            #expect(inspection.problems == log.problems, "\(number)")
            #expect(inspection.notes == log.notes, "\(number)")
        }
    }

    @Test("reports bytes that stay damaged")
    func damage() throws {
        let (content, position) = try makeLog()
        try write([content[position] ^ 1], at: position)
        let inspection = try #require(try KVInspection(of: directory, fileSystem: memory))
        #expect(inspection.problems.count == 1)
        #expect(inspection.keyCount == 9)
    }
}

@Suite("A catalog of keys")
struct CatalogTests {
    @Test("distinct keys have no problems")
    func sound() {
        #expect(KVKeyCatalog(KVKey<Int>("a"), KVKey<String>("b"), KVKey<Int>("a.b")).problems.isEmpty)
        #expect(KVKeyCatalog().problems.isEmpty)
        #expect(KVKeyCatalog().description == "")
    }

    @Test("a name that is declared twice is reported, with its types and versions if they differ")
    func duplicates() {
        let catalog = KVKeyCatalog(
            KVKey<Int>("a"), KVKey<Int>("a"), KVKey<Int>("b"), KVKey<String>("b"), KVKey<Int>("c"),
            KVKey<Int>("c", migrations: [.from(1) { (old: String) in old.count }]))
        #expect(
            catalog.problems == [
                .duplicate(name: "a", count: 2), .severalTypes(name: "b", types: ["Swift.Int", "Swift.String"]),
                .severalVersions(name: "c", versions: [1, 2]),
            ])
        #expect(
            catalog.problems.map(\.description) == [
                "\"a\" is declared 2 times", "\"b\" is declared with Swift.Int and Swift.String",
                "\"c\" is declared with versions 1 and 2",
            ])
    }

    @Test(
        "names that differ in case or normalisation only are reported",
        arguments: [
            ["theme", "Theme"], ["\u{E9}", "e\u{301}"], ["straße", "STRASSE"], ["\u{C9}", "e\u{301}"],
            ["Å", "\u{212B}"],
        ])
    func similar(_ names: [String]) {
        var catalog = KVKeyCatalog(KVKey<Int>("other"))
        for name in names { catalog.declare(KVKey<Int>(name)) }
        #expect(catalog.problems.count == 1)
        guard case .similar(let found)? = catalog.problems.first else {
            Issue.record("\(catalog.problems)")
            return
        }
        #expect(Set(found.map { Array($0.utf8) }) == Set(names.map { Array($0.utf8) }))
        #expect(catalog.problems.first?.description.contains("differ in case or normalisation only") == true)
    }

    @Test("problems are sorted by name, and those of a name by their text")
    func order() {
        // In the order of the texts, a quotation mark follows an exclamation mark.
        let names = "abcdefgh".flatMap { ["\($0)", "\($0)!"] }
        var catalog = KVKeyCatalog()
        for name in names + names { catalog.declare(KVKey<Int>(name)) }
        #expect(catalog.problems == names.map { KVKeyProblem.duplicate(name: $0, count: 2) })
        #expect(
            KVKeyCatalog(KVKey<Int>("A"), KVKey<Int>("A"), KVKey<Int>("a")).problems == [
                .similar(names: ["A", "a"]), .duplicate(name: "A", count: 2),
            ])
    }

    @Test("entries and problems are equal only if all that they tell is")
    func equality() {
        let entry = KVKeyCatalog(KVKey<Int>("a")).entries[0]
        #expect(entry == KVKeyCatalog(KVKey<Int>("a")).entries[0])
        let changes: [(inout KVKeyCatalog.Entry) -> Void] = [
            { $0.name = "b" }, { $0.type = "Swift.String" }, { $0.schemaVersion = 2 }, { $0.migratedVersions = [1] },
            { $0.description = "x" },
        ]
        for (number, change) in changes.enumerated() {
            var other = entry
            change(&other)
            #expect(other != entry, "\(number)")
        }
        let problems: [KVKeyProblem] = ["a", "b"].flatMap { name -> [KVKeyProblem] in
            [
                .duplicate(name: name, count: 2), .duplicate(name: name, count: 3),
                .severalTypes(name: name, types: ["A", "B"]), .severalTypes(name: name, types: ["A", "C"]),
                .severalVersions(name: name, versions: [1, 2]), .severalVersions(name: name, versions: [1, 3]),
                .similar(names: [name, "A"]), .similar(names: [name, "B"]), .tooLong(name: name),
            ]
        }
        for (index, problem) in problems.enumerated() {
            #expect(problems.indices.filter { problems[$0] == problem } == [index])
        }
    }

    @Test("an invalid name is reported")
    func tooLong() {
        #expect(KVKeyCatalog(KVKey<Int>(String(repeating: "x", count: 1024))).problems.isEmpty)
        let name = String(repeating: "x", count: 1025)
        let problems = KVKeyCatalog(KVKey<Int>(name)).problems
        #expect(problems == [.tooLong(name: name)])
        #expect(problems.first?.description.hasSuffix("is longer than 1024 bytes") == true)
    }

    @Test("the inventory has a line for each key, in columns")
    func inventory() {
        var catalog = KVKeyCatalog()
        catalog.declare(KVKey<Bool>("onboarding.completed"), "whether the introduction was seen")
        catalog.declare(KVKey<Int>("a", migrations: [.from(1) { (old: String) in old.count }]))
        #expect(
            catalog.description == """
                "a"                     Swift.Int   version 2, reads 1
                "onboarding.completed"  Swift.Bool  version 1           whether the introduction was seen
                """)
    }

    @Test("undeclared names in a store are found")
    func undeclared() throws {
        let store = InMemoryKVStore()
        for name in ["b", "a", "e\u{301}", "\u{E9}"] { try store.set(KVKey<Int>(name), value: 1) }
        let catalog = KVKeyCatalog(KVKey<Int>("a"), KVKey<Int>("\u{E9}"), KVKey<Int>("unused"))
        #expect(try catalog.undeclaredNames(in: store).map { Array($0.utf8) } == [[98], [101, 204, 129]])
    }
}
