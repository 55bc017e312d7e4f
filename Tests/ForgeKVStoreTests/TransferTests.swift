import ForgeCoding
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@Suite("Import and export")
struct TransferTests {
    private let store = InMemoryKVStore()

    private struct Profile: Codable, Sendable, Equatable {
        var name: String
        var born: Date?
    }

    @Test("a JSON object is imported as values that typed keys can read")
    func json() throws {
        let text = """
            {"count": 3, "ratio": 0.5, "name": "Ada", "on": true, "none": null, "list": [1, 2], "é": 1,
             "profile": {"name": "Ada"}, "large": 18446744073709551615}
            """
        let report = try store.importValues(from: .json(Data(text.utf8)))
        #expect(report.copiedCount == 9 && report.isComplete)
        #expect(store.get(KVKey<Int>("count")) == 3)
        #expect(store.get(KVKey<Double>("ratio")) == 0.5)
        #expect(store.get(KVKey<Double>("count")) == 3)
        #expect(store.get(KVKey<String>("name")) == "Ada")
        #expect(store.get(KVKey<Bool>("on")) == true)
        #expect(store.get(KVKey<Int?>("none")) == .some(.none))
        #expect(store.get(KVKey<[Int]>("list")) == [1, 2])
        #expect(store.get(KVKey<Profile>("profile")) == Profile(name: "Ada"))
        #expect(store.get(KVKey<UInt64>("large")) == .max)
    }

    @Test(
        "data that is not a JSON object is refused as a whole",
        arguments: ["", "[1]", "{", "1", "{\"a\": 1, \"a\": 2}", "\u{0}"])
    func noJSON(_ text: String) throws {
        let error = #expect(throws: KVStoreError.self) { try KVImportSource.json(Data(text.utf8)) }
        #expect(error?.code == .undecodable && error?.operation == .import)
        #expect(throws: KVStoreError.self) { try KVImportSource.json(Data([0x22, 0xFF, 0x22])) }
    }

    @Test("a property list of each format is imported as values that typed keys can read", arguments: [true, false])
    func propertyList(_ isBinary: Bool) throws {
        let list: [String: Any] = [
            "count": 3, "name": "Ada", "on": true, "data": Data([1, 2]), "date": Date(timeIntervalSince1970: 5),
            "list": [1, 2], "deep": ["a": ["b": 1]], "#forge:%00": 1,
        ]
        let data = try PropertyListSerialization.data(
            fromPropertyList: list, format: isBinary ? .binary : .xml, options: 0)
        let fileSystem = InMemoryFileSystem()
        try fileSystem.put(Array(data), at: "/defaults.plist")
        let report = try store.importValues(
            from: .propertyList(at: URL(filePath: "/defaults.plist"), fileSystem: fileSystem))
        #expect(report.copiedCount == 8 && report.isComplete)
        #expect(store.get(KVKey<Int>("count")) == 3)
        #expect(store.get(KVKey<Bool>("on")) == true)
        #expect(store.get(KVKey<Data>("data")) == Data([1, 2]))
        #expect(store.get(KVKey<Date>("date")) == Date(timeIntervalSince1970: 5))
        #expect(store.get(KVKey<[String: [String: Int]]>("deep")) == ["a": ["b": 1]])
        #expect(store.get(KVKey<Int>("\0")) == 1)
    }

    @Test("data that is not a property list with a dictionary, and a missing file, are refused")
    func noPropertyList() throws {
        #expect(throws: KVStoreError.self) { try KVImportSource.propertyList(Data("nonsense".utf8)) }
        let array = try PropertyListSerialization.data(fromPropertyList: [1], format: .xml, options: 0)
        #expect(throws: KVStoreError.self) { try KVImportSource.propertyList(array) }
        let error = #expect(throws: KVStoreError.self) {
            try KVImportSource.json(at: URL(filePath: "/none"), fileSystem: InMemoryFileSystem())
        }
        #expect(error?.code == .unavailable(.inputOutput))
        #expect(error?.store == "/none")
    }

    @Test("the user defaults are imported")
    func userDefaults() throws {
        let suite = TemporarySuite()
        let defaults = UserDefaultsKVStore(suiteName: suite.name)
        try defaults.set(
            KVKey<Profile>("profile"), value: Profile(name: "Ada", born: Date(timeIntervalSince1970: 0.25)))
        try defaults.set(KVKey<Int>("e\u{301}"), value: 1)
        try defaults.set(KVKey<Int>("\u{E9}"), value: 2)
        #expect(try store.importValues(from: .userDefaults(suiteName: suite.name)).copiedCount == 3)
        #expect(store.get(KVKey<Profile>("profile"))?.born == Date(timeIntervalSince1970: 0.25))
        #expect(store.get(KVKey<Int>("e\u{301}")) == 1)
        #expect(store.get(KVKey<Int>("\u{E9}")) == 2)
        // And back, into a store that converts values.
        let other = TemporarySuite()
        let back = try store.exportValues(to: UserDefaultsKVStore(suiteName: other.name))
        #expect(back.copiedCount == 3 && back.isComplete)
        #expect(try store.exportValues(to: UserDefaultsKVStore(suiteName: other.name)).equalCount == 3)
    }

    @Test("existing values are kept or replaced, and a second run finds everything equal")
    func existing() throws {
        let source = InMemoryKVStore()
        for index in 0..<5 { try source.set(KVKey<Int>("\(index)"), value: index) }
        try store.set(KVKey<Int>("1"), value: 100)
        try store.set(KVKey<Int>("2"), value: 2)
        let kept = try store.importValues(from: .store(source))
        #expect((kept.copiedCount, kept.equalCount, kept.keptNames) == (3, 1, ["1"]))
        #expect(store.get(KVKey<Int>("1")) == 100)
        let replaced = try store.importValues(from: .store(source), existing: .replace)
        #expect((replaced.copiedCount, replaced.equalCount, replaced.keptNames) == (1, 4, []))
        #expect(store.get(KVKey<Int>("1")) == 1)
        #expect("\(replaced)" == "1 copied, 4 there already, 0 kept, 0 failed")
    }

    @Test("values that cannot be stored are reported by name and reason, and all others are stored")
    func failures() throws {
        let source = InMemoryKVStore()
        try source.set(KVKey<String>("long"), value: String(repeating: "secret", count: 20))
        try source.set(KVKey<Int>("short"), value: 1)
        let small = InMemoryKVStore(maximumValueSizeInBytes: 50)
        let report = try small.importValues(from: .store(source))
        #expect(report.copiedCount == 1 && !report.isComplete)
        #expect(report.failures.map(\.name) == ["long"])
        #expect(report.failures.map(\.error.code) == [.valueTooLarge])
        #expect(!"\(report)".contains("secret"))
        #expect("\(report)".contains("\"long\""))
    }

    @Test("a store that alters values is detected")
    func verification() throws {
        struct Forgetful: KVLayer, KVRawStoring {
            let base = InMemoryKVStore()
            func setRawValue(_ bytes: [UInt8], named name: String) throws {
                try base.setRawValue(bytes.dropLast() + [0], named: name)
            }
        }
        try store.set(KVKey<Int>("a"), value: 5)
        let report = try store.exportValues(to: Forgetful())
        #expect(report.failures.map(\.error.code) == [.damaged])
    }

    /// A store whose reads of raw values give one result.
    private struct Unreadable: KVLayer, KVRawStoring {
        let base = InMemoryKVStore()
        let result: @Sendable () throws -> [UInt8]?

        func rawValue(named name: String) throws -> [UInt8]? { try result() }
    }

    @Test("values that cannot be read are failures, and those that are removed meanwhile are left out")
    func unreadableSource() throws {
        let failing = Unreadable { throw CocoaError(.fileReadUnknown) }
        let emptied = Unreadable { nil }
        for source in [failing, emptied] {
            for name in ["b", "a"] { try source.base.set(KVKey<Int>(name), value: 1) }
        }
        let report = try store.importValues(from: .store(failing))
        #expect(report.failures.map(\.name) == ["a", "b"])
        #expect(report.failures.map(\.error.code) == [.damaged, .damaged])
        #expect(report.failures.map(\.error.key) == ["a", "b"])
        #expect(report.failures.allSatisfy { $0.error.operation == .import && $0.error.underlying != nil })
        #expect(try "\(store.importValues(from: .store(emptied)))" == "0 copied, 0 there already, 0 kept, 0 failed")
        #expect(try store.keys().isEmpty)
        #expect(try emptied.exportJSON().json == "{}")
    }

    @Test("values are stored in the order of their names, and a value of another schema version is another value")
    func orderAndVersions() throws {
        let source = InMemoryKVStore()
        for name in ["b", "\u{E9}", "a", "e\u{301}"] { try source.set(KVKey<Int>(name), value: 7) }
        let recording = RecordingKVStore(store)
        try recording.importValues(from: .store(source))
        let stored = recording.calls.filter { $0.operation == .setRawValue }
        #expect(stored == ["a", "b", "e\u{301}", "\u{E9}"].map { KVStoreCall(.setRawValue, [$0]) })

        try source.set(KVKey<Int>("a", migrations: [.from(1) { (old: Int) in old }]), value: 7)
        let report = try store.importValues(from: .store(source))
        #expect((report.copiedCount, report.equalCount, report.keptNames) == (0, 3, ["a"]))
    }

    @Test("an object that only resembles a value with a schema version is a value")
    func schemaVersions() throws {
        let text = """
            {"a": {"@schema": 2, "@value": 5, "x": 1}, "b": {"@schema": -1, "@value": 5}, "c": {"@schema": 2, "x": 5},
             "d": {"@schema": 4294967296, "@value": 5}, "e": {"@schema": 4294967295, "@value": 5}, "f": {"@value": 5}}
            """
        #expect(try store.importValues(from: .json(Data(text.utf8))).copiedCount == 6)
        let versions = try ["a", "b", "c", "d", "e", "f"].map { name in
            try ValueEnvelope(decoding: try #require(try store.rawValue(named: name))).schemaVersion
        }
        #expect(versions == [1, 1, 1, 1, .max, 1])
        #expect(store.get(KVKey<[String: Int]>("a")) == ["@schema": 2, "@value": 5, "x": 1])
        #expect(store.get(KVKey<[String: Int]>("b")) == ["@schema": -1, "@value": 5])
        #expect(store.get(KVKey<[String: Int]>("d")) == ["@schema": 1 << 32, "@value": 5])
    }

    @Test("an exported JSON text is sorted by name and can be imported")
    func export() throws {
        try store.set(KVKey<Int>("b"), value: 1)
        try store.set(KVKey<[String: Double]>("a"), value: ["x": 0.5])
        try store.set(KVKey<Int>("c", migrations: [.from(1) { (old: String) in old.count }]), value: 7)
        try store.setRawValue([0xFF, 1], named: "d")
        let (json, failures) = try store.exportJSON()
        #expect(json == #"{"a":{"x":0.5},"b":1,"c":{"@schema":2,"@value":7}}"#)
        #expect(failures.map(\.name) == ["d"])
        #expect(failures.map(\.error.code) == [.undecodable])
        let copy = InMemoryKVStore()
        #expect(try copy.importValues(from: .json(Data(json.utf8))).copiedCount == 3)
        for name in ["a", "b", "c"] { #expect(try copy.rawValue(named: name) == store.rawValue(named: name)) }
        #expect(try store.exportJSON(prettyPrinted: true).json.contains("\n"))
    }

    @Test(
        "a value without a JSON form is a failure, and the others are exported",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func noJSONForm() throws {
        try store.set(KVKey<Int>("a"), value: 1)
        try store.setRawValue([0x11, 1, 0xA2, 1, 1, 0x61, 0x31, 2], named: "equal")
        try #require(try store.exportJSON().failures.map(\.name) == ["equal"])
        try store.setRawValue(
            [0x11, 1] + Array(repeating: 0xA1, count: 60) + [1] + Array(repeating: 2, count: 60), named: "deep")
        let (json, failures) = try store.exportJSON()
        #expect(failures.map(\.name) == ["deep", "equal"])
        #expect(failures.map(\.error.code) == [.unencodable, .unencodable])
        #expect(json == #"{"a":1}"#)
    }

    @Test("values that resemble a schema version, and names that Unicode considers equal, are imported as exported")
    func exactExport() throws {
        try store.set(KVKey<[String: Int]>("a"), value: ["@schema": 2, "@value": 5])
        try store.set(KVKey<[String: String]>("b"), value: ["@schema": "x"])
        try store.set(KVKey<Int>("e\u{301}"), value: 1)
        try store.set(KVKey<Int>("\u{E9}"), value: 2)
        for isPretty in [true, false] {
            let (json, failures) = try store.exportJSON(prettyPrinted: isPretty)
            #expect(failures.isEmpty)
            let copy = InMemoryKVStore()
            #expect(try copy.importValues(from: .json(Data(json.utf8))).copiedCount == 4)
            for name in try store.keys() { #expect(try copy.rawValue(named: name) == store.rawValue(named: name)) }
        }
    }

    @Test("a value of the largest depth is imported, and one that is too deep fails alone")
    func depths() throws {
        let deepest = CodedValue.array((1..<64).reduce([.string("]")]) { array, _ in [.array(array)] })
        let envelope = ValueEnvelope(schemaVersion: 2, payload: try deepest.encoded())
        try store.setRawValue(envelope.encoded, named: "a")
        let json = try store.exportJSON().json
        let copy = InMemoryKVStore()
        #expect(try copy.importValues(from: .json(Data(json.utf8))).isComplete)
        #expect(try copy.rawValue(named: "a") == envelope.encoded)

        let tooDeep = { String(repeating: "[", count: $0) + #""]\"""# + String(repeating: "]", count: $0) }
        let text = "{\"b\": \(tooDeep(65)), \"c\": \(tooDeep(100_000)), \"d\": 4}"
        let report = try copy.importValues(from: .json(Data(text.utf8)))
        #expect(report.failures.map(\.name) == ["b", "c"])
        #expect(report.failures.map(\.error.code) == [.unencodable, .unencodable])
        #expect(copy.get(KVKey<Int>("d")) == 4)
        for cut in ["{\"c\": \(tooDeep(100).dropLast(3))", "{\"c\": \(tooDeep(100))"] {
            #expect(throws: KVStoreError.self) { try KVImportSource.json(Data(cut.utf8)) }
        }
    }

    @Test(
        "a value with a number out of range or half a character fails alone",
        arguments: [
            "1e400", "[1, {\"x\": -1e-400}]", #""\ud800""#, #""\udc00x""#, #""\ud800\ud83d\ude00""#, #""\ud800\n""#,
            #"{"\ud800": 1, "\ud801": 2, "x": 1e400}"#,
        ])
    func unrepresentable(_ value: String) throws {
        let report = try store.importValues(from: .json(Data("{\"a\": 1, \"b\": \(value), \"c\": 3}".utf8)))
        #expect(report.copiedCount == 2 && report.failures.map(\.name) == ["b"])
        let error = try #require(report.failures.first?.error)
        #expect(error.code == .unencodable && error.operation == .import && error.key == "b")
        #expect(try store.integers() == ["a": 1, "c": 3])
        // It is still JSON up to its end, and a name has no failure of its own.
        for text in [
            "{\"b\": \(value)", "{\"b\": \(value)}]", "{\"b\": [\(value),]}", "{\"b\": \(value), \"b\": 1}",
            #"{"\ud800": 1}"#,
        ] {
            #expect(throws: KVStoreError.self) { try KVImportSource.json(Data(text.utf8)) }
        }
    }

    @Test("a name that is too long fails alone, and as part of the import")
    func longName() throws {
        let name = String(repeating: "x", count: KVKey<Int>.maximumNameLength + 1)
        let report = try store.importValues(from: .json(Data("{\"\(name)\": 1, \"a\": 2}".utf8)))
        #expect(report.copiedCount == 1)
        #expect(report.failures.map(\.error.code) == [.invalidKey])
        #expect(report.failures.map(\.error.operation) == [.import])
        #expect(report.failures.map(\.error.key) == [name])
    }

    @Test("a FIFO instead of a file is refused", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func pipe() throws {
        let directory = TemporaryDirectory()
        try FileManager.default.createDirectory(at: directory.url, withIntermediateDirectories: true)
        let url = directory.url.appending(path: "pipe")
        try #require(mkfifo(url.path, 0o600) == 0)
        // An open writing end, so that an import that reads the FIFO fails instead of waiting.
        let end = open(url.path, O_RDWR | O_NONBLOCK)
        _ = write(end, "{}", 2)
        defer { close(end) }
        for read in [KVImportSource.json(at:fileSystem:), KVImportSource.propertyList(at:fileSystem:)] {
            let error = #expect(throws: KVStoreError.self) { try read(url, SystemFileSystem()) }
            #expect(error?.store == url.path)
        }
    }

    @Test("an import interrupted at any value can be continued", arguments: 0..<6)
    func resumption(_ count: Int) throws {
        let source = InMemoryKVStore()
        for index in 0..<5 { try source.set(KVKey<Int>("\(index)"), value: index) }
        let fixture = LogFixture()
        do {
            let first = try fixture.open()
            let part = InMemoryKVStore()
            for index in 0..<min(count, 5) { try part.set(KVKey<Int>("\(index)"), value: index) }
            try first.importValues(from: .store(part))
        }
        let report = try fixture.open().importValues(from: .store(source))
        #expect(report.equalCount == min(count, 5))
        #expect(report.copiedCount == 5 - min(count, 5))
        #expect(try fixture.open().integers() == source.integers())
    }
}

extension InMemoryFileSystem {
    fileprivate func put(_ bytes: [UInt8], at path: POSIXPath) throws {
        try withDirectory("/") { (directory) throws(FileSystemError) in
            try replaceFile(path, at: directory, .replacing, permissions: .ownerReadWrite, durability: .none) {
                (descriptor) throws(FileSystemError) in
                try writeBytes(bytes, to: descriptor)
            }
        }
    }
}

@Suite("Decimals in JSON exports")
struct DecimalTransferTests {
    private let store = InMemoryKVStore()
    private let copy = InMemoryKVStore()

    private func transfer() throws {
        let (json, failures) = try store.exportJSON()
        #expect(failures.isEmpty)
        #expect(try copy.importValues(from: .json(Data(json.utf8))).isComplete)
    }

    @Test("keep their value")
    func values() throws {
        let texts = [
            "99999999999999999.99", "-0.1", "0.3", "1e2", "12345678901234567890.123456789", "1e127", "7e-127",
            "\(Decimal.greatestFiniteMagnitude)", "\(Decimal.leastFiniteMagnitude)", "0", "-5",
        ]
        let decimals = try texts.map { try #require(Decimal(string: $0)) }
        for (text, decimal) in zip(texts, decimals) { try store.set(KVKey<Decimal>(text), value: decimal) }
        try store.set(KVKey<[Decimal]>("list"), value: decimals)
        try transfer()
        for (text, decimal) in zip(texts, decimals) { #expect(copy.get(KVKey<Decimal>(text)) == decimal) }
        #expect(copy.get(KVKey<[Decimal]>("list")) == decimals)
    }

    @Test("can also be read as Double, and a Double is kept as one")
    func doubles() throws {
        let doubles = [0.1, 1e17, .greatestFiniteMagnitude, .leastNonzeroMagnitude, -0.0, 3, 0.1 + 0.2, 1e-7]
        try store.set(KVKey<[Double]>("doubles"), value: doubles)
        try store.set(KVKey<[Float]>("floats"), value: doubles.map { Float($0) }.filter(\.isFinite))
        try store.set(KVKey<Decimal>("decimal"), value: try #require(Decimal(string: "99999999999999999.99")))
        try transfer()
        #expect(try copy.rawValue(named: "doubles") == store.rawValue(named: "doubles"))
        #expect(copy.get(KVKey<[Float]>("floats")) == store.get(KVKey<[Float]>("floats")))
        #expect(copy.get(KVKey<Double>("decimal")) == 1e17)
        #expect(copy.get(KVKey<Int>("decimal")) == nil)
    }
}
