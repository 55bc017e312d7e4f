import ChildProcesses
import ForgeCoding
import ForgeFileSystem
import Foundation
import SystemPackage
import Testing
@testable import ForgeKVStore

@Suite struct KeyTests {
    @Test("keys are equal if their names are, byte for byte")
    func equality() {
        #expect(KVKey<Int>("a") == KVKey<Int>("a"))
        #expect(KVKey<Int>("a") != KVKey<Int>("b"))
        #expect(KVKey<Int>("\u{E9}") != KVKey<Int>("e\u{301}"))
        #expect(Set([KVKey<Int>("a"), KVKey<Int>("a"), KVKey<Int>("\u{E9}"), KVKey<Int>("e\u{301}")]).count == 3)
        #expect(KVKey<Int>("a").name == "a")
        #expect(KVKey<Int>.maximumNameLength == 1024)
    }

    @Test("changes, requirements and reports of damage are equal if their names are, byte for byte")
    func equalityOfNames() {
        /// Different values with a name.
        func values(_ name: String) -> [AnyHashable] {
            let report = KVDamageReport(kind: .value, file: "f", offset: 0, sizeInBytes: 1, key: name)
            var (moved, shorter, left, named) = (report, report, report, report)
            moved.offset = 2
            shorter.sizeInBytes = 0
            left.isSetAside = false
            named.file = name
            return [
                KVBatch.Change.set(name: name, bytes: []), KVBatch.Change.set(name: name, bytes: [1]),
                KVBatch.Change.remove(name: name), KVBatch.Requirement(name: name, revision: nil),
                KVBatch.Requirement(name: name, revision: 1), report, moved, shorter, left, named,
            ]
        }
        let all = values("\u{E9}") + values("e\u{301}") + values("a")
        #expect(all.count == 30 && Set(all).count == 30 && Set(all + values("\u{E9}")).count == 30)
    }

    @Test(
        "a key describes itself in one line",
        arguments: [
            ("a", "\"a\""), ("", "\"\""), ("a\nb", "\"a\\x0ab\""), ("é\u{202E}", "\"é\\xe2\\x80\\xae\""),
            (String(repeating: "x", count: 80), "\"" + String(repeating: "x", count: 80) + "\""),
            (String(repeating: "x", count: 81), "\"" + String(repeating: "x", count: 80) + "…\""),
        ])
    func description(_ name: String, _ expected: String) {
        #expect("\(KVKey<Int>(name))" == expected)
    }

    @Test("an error description has operation, key, store and reason in one line")
    func error() {
        let cause = FileSystemError(.write, .noSpace, path: "log")
        let error = KVStoreError(
            .unavailable(.inputOutput), .set, key: "a\nb", store: "/x/store", underlying: cause)
        #expect(
            "\(error)"
                == "set \"a\\x0ab\" in /x/store: unavailable: file system error: \(cause)")
        #expect("\(KVStoreError(.noStore, .keys))" == "keys: there is no store")
        #expect(error.code.unavailability == .inputOutput)
        #expect(KVStoreError.Code.damaged.unavailability == nil)
        #expect(KVStoreError.Code.unavailable(.poisoned) != .unavailable(.locked))
    }

    @Test("an error never contains a value that a coder or the value's own code put into its error")
    func secrets() {
        struct Leaky: Error { let text = "secret" }
        let context = EncodingError.Context(codingPath: [], debugDescription: "secret")
        let decoding = DecodingError.Context(codingPath: [], debugDescription: "secret")
        let errors: [any Error] = [
            EncodingError.invalidValue("secret", context), DecodingError.dataCorrupted(decoding),
            DecodingError.typeMismatch(Int.self, decoding), DecodingError.valueNotFound(Int.self, decoding), Leaky(),
        ]
        for cause in errors {
            let error = KVStoreError(.undecodable, .read, key: "a", underlying: cause)
            #expect(!"\(error)".contains("secret"))
            var dumped = ""
            dump(error, to: &dumped)
            #expect(!dumped.contains("secret"))
        }
    }

    @Test("an error of a value's own code is reported with the operation that ran it")
    func ownCode() throws {
        struct Refusal: Error {}
        struct Refusing: Codable, Sendable {
            init() {}
            init(from decoder: any Decoder) throws { throw Refusal() }
            func encode(to encoder: any Encoder) throws { throw Refusal() }
        }
        let store = InMemoryKVStore()
        let key = KVKey<Refusing>("a")
        let encoding = #expect(throws: KVStoreError.self) { try key.encode(Refusing()) }
        #expect("\(try #require(encoding))".hasPrefix("set \"a\": the value cannot be encoded: encode: "))
        let write = #expect(throws: KVStoreError.self) { try store.set(key, value: Refusing()) }
        #expect("\(try #require(write))".hasSuffix("encode: the value's own code threw Refusal"))
        var batch = KVBatch()
        try batch.set(KVKey<Int>("b"), value: 1)
        let refused = #expect(throws: KVStoreError.self) { try batch.set(key, value: Refusing()) }
        #expect(refused?.code == .unencodable && refused?.operation == .batch && refused?.key == "a")
        #expect(batch.changes.map(\.name) == ["b"])
        try store.set(KVKey<Int>("a"), value: 1)
        let read = #expect(throws: KVStoreError.self) { try store.read(key) }
        #expect("\(try #require(read))".hasSuffix("decode: the value's own code threw Refusal"))
    }

    @Test("an underlying error of an unknown type is named by its type, and not taken for one of decoding")
    func unknownErrors() {
        struct Custom: Error { let text = "secret" }
        let cancelled = KVStoreError(.unavailable(.server), .read, key: "a", underlying: CancellationError())
        #expect(cancelled.underlying is CancellationError)
        let custom = KVStoreError(.unavailable(.inputOutput), .set, key: "a", underlying: Custom())
        #expect("\(custom)" == "set \"a\": unavailable: file system error: an error of the type Custom")
        #expect("\(KVStoreError(.undecodable, .read, underlying: Custom()))".contains("Custom"))
        #expect(KVStoreError(.unencodable, .set, underlying: Custom()).underlying is CodingFailure)
    }

    @Test("an error of another store becomes one of the call, with its key unless it has one")
    func converted() {
        let own = KVStoreError(of: KVStoreError(.readOnly, .set, key: "b"), .read, key: "a")
        #expect(own.code == .readOnly && own.operation == .set && own.key == "b")
        #expect(KVStoreError(of: KVStoreError(.readOnly, .batch), .read, key: "a").key == "a")
        let cancelled = KVStoreError(of: CancellationError(), .read, key: "a")
        #expect(cancelled.code == .cancelled && cancelled.operation == .read && cancelled.key == "a")
        struct Custom: Error {}
        let other = KVStoreError(of: Custom(), .read, key: "a")
        #expect(other.code == .unavailable(.inputOutput) && other.operation == .read && other.key == "a")
        #expect(!other.isOutOfSpace && !other.isInUse)
        #expect("\(KVStoreError(.undecodable, .read))" == "read: the value cannot be decoded as the type of the key")
        #expect("\(KVStoreError(.undecodable, .import))" == "import: cannot be decoded")
        #expect("\(KVStoreError(.damaged, .import))" == "import: damaged")
    }

    @Test("a report of damage and an issue describe themselves in one line")
    func issues() {
        var report = KVDamageReport(kind: .records, file: "/s/log", offset: 64, sizeInBytes: 7, isSetAside: false)
        #expect("\(report)" == "records at byte 64, 7 bytes, left in /s/log")
        #expect("\(KVStoreIssue.damage(report))" == "damage: records at byte 64, 7 bytes, left in /s/log")
        (report.kind, report.key, report.isSetAside) = (.value, "a\n", true)
        #expect("\(report)" == "value of \"a\\x0a\", 7 bytes, set aside in /s/log")
        let error = KVStoreError(.damaged, .set, key: "a")
        let issues: [(KVStoreIssue, String)] = [
            (.missingRecords(offset: 9), "records are missing at byte 9 of the log"),
            (.tornTail(sizeInBytes: 3), "the log ended in 3 bytes of an unfinished record, now removed"),
            (.readOnly(error), "read-only: set \"a\": damaged"),
            (.undecodable(error), "undecodable: set \"a\": damaged"),
            (.compactionFailed(error), "compaction failed: set \"a\": damaged"),
            (.sharing(error), "sharing with other processes: set \"a\": damaged"),
            (.assignment(key: "b", error), "assignment to \"b\": set \"a\": damaged"),
        ]
        for (issue, text) in issues { #expect("\(issue)" == text) }
    }

    @Test("a key traps for a migration from no version, from the last one, or twice from one", .onOwnThreads)
    func impossibleMigrations() async {
        await #expect(processExitsWith: .failure) {
            _ = KVKey<Int>("a", migrations: [.from(0) { (old: String) in old.count }])
        }
        await #expect(processExitsWith: .failure) {
            _ = KVKey<Int>("a", migrations: [.from(.max) { (old: String) in old.count }])
        }
        await #expect(processExitsWith: .failure) {
            _ = KVKey<Int>(
                "a", migrations: [.from(2) { (old: String) in old.count }, .from(2) { (old: Bool) in old ? 1 : 0 }])
        }
    }

    @Test("every code has a distinct text")
    func codes() {
        let codes: [KVStoreError.Code] = [
            .undecodable, .unencodable, .damaged, .invalidKey, .valueTooLarge, .storeTooLarge, .tooLarge,
            .durabilityUnknown, .unknownOutcome, .notYetVisible, .timeout, .cancelled, .conflict, .readOnly, .refused,
            .leaseLost, .noStore, .newerSchema(version: 9), .unavailable(.server),
            .unavailable(.poisoned), .unavailable(.inUse(processID: 7)), .unknownFormat(version: 9),
        ]
        #expect(Set(codes.map(\.description)).count == codes.count)
    }
}

@Suite("Values of types that are stored inline in entries")
struct InlineTypesTests {
    private static let values: [any (Codable & Sendable & Equatable & FixedWidthInteger).Type] = [
        Int.self, Int64.self, Int32.self, Int16.self, Int8.self, UInt.self, UInt64.self, UInt32.self, UInt16.self,
        UInt8.self,
    ]

    private let fileSystem = InMemoryFileSystem()

    private func open() throws -> FileKVStore { try FileKVStore(at: "/store", fileSystem: fileSystem) }

    /// Stores values of a type, and compares them as bytes, decoded from those, and after reopening.
    private func check<Value: Codable & Sendable & Equatable>(_ type: Value.Type, _ values: [Value]) throws {
        #expect(InlineTypes.contain(type))
        #expect(ObjectIdentifier(InlineTypes.type(InlineTypes.kind(of: type))) == ObjectIdentifier(type))
        for value in values {
            let key = KVKey<Value>("\(type)")
            let bytes: [UInt8]
            do {
                let store = try open()
                try store.set(key, value: value)
                bytes = try #require(try store.rawValue(named: key.name))
                #expect(bytes == (try ValueTable.coder.encode(value)))
                #expect(store.get(key) == value)
                #expect(try store.snapshot().read(key) == value)
                try store.setRawValue(bytes, named: "raw")
                #expect(store.get(KVKey<Value>("raw")) == value)
            }
            let store = try open()
            #expect(try store.rawValue(named: key.name) == bytes)
            #expect(store.get(key) == value)
            #expect(store.get(KVKey<[String]>(key.name)) == nil)
            try store.compact()
            #expect(store.get(key) == value)
        }
    }

    private func checkInteger<Value: Codable & Sendable & FixedWidthInteger>(_ type: Value.Type) throws {
        try check(type, [.min, 0, 1, .max])
    }

    @Test("keep value and bytes for every type")
    func everyType() throws {
        for type in Self.values { try checkInteger(type) }
        try check(Bool.self, [false, true])
        try check(Float.self, [0, -0.5, .greatestFiniteMagnitude, .infinity])
        try check(Double.self, [0, 0.1, -.leastNonzeroMagnitude, .infinity])
        let texts = ["", "short", String(repeating: "long", count: 100), "e\u{301}"]
        try check(String.self, texts)
        // A name without bytes.
        for text in texts {
            let store = InMemoryKVStore()
            try store.set(KVKey<String>(""), value: text)
            #expect(store.get(KVKey<String>("")) == text)
        }
        #expect(InlineTypes.all.count == Self.values.count + 4, "all of them are checked here")
    }
}

@Suite("Values that share nothing with their copies")
struct ValueSemanticsTests {
    private final class Object: Hashable {
        static func == (left: Object, right: Object) -> Bool { left === right }

        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }

    private enum Colour: Hashable { case red, blue }

    private enum Content {
        case number(Int)
        case object(Object)
    }

    private struct Pair {
        var number = 1
        var colour = Colour.red
    }

    /// Chooses what its mirror shows.
    private struct Hidden: CustomReflectable {
        let object = Object()
        var customMirror: Mirror { Mirror(self, children: ["number": 1]) }
    }

    @Test("hold no object, whatever contains them")
    func certain() {
        #expect(ValueSemantics.isCertain(of: 1))
        #expect(ValueSemantics.isCertain(of: ["a": [1]]))
        #expect(ValueSemantics.isCertain(of: Colour.red))
        #expect(ValueSemantics.isCertain(of: Pair()))
        #expect(ValueSemantics.isCertain(of: Content.number(1)))
        #expect(ValueSemantics.isCertain(of: Colour?.some(.red)))
        #expect(ValueSemantics.isCertain(of: Object?.none))
        #expect(ValueSemantics.isCertain(of: [Object]()))
        #expect(ValueSemantics.isCertain(of: [Pair()]))
        #expect(ValueSemantics.isCertain(of: [.red, .blue] as Set<Colour>))
        #expect(ValueSemantics.isCertain(of: [Colour.red: Pair()]))
    }

    @Test("are not those that hold an object, or hide what they hold")
    func uncertain() {
        #expect(!ValueSemantics.isCertain(of: Object()))
        #expect(!ValueSemantics.isCertain(of: Content.object(Object())))
        #expect(!ValueSemantics.isCertain(of: Object?.some(Object())))
        #expect(!ValueSemantics.isCertain(of: [Content.number(1), .object(Object())]))
        #expect(!ValueSemantics.isCertain(of: [Object()] as Set<Object>))
        #expect(!ValueSemantics.isCertain(of: ["a": Object()]))
        #expect(!ValueSemantics.isCertain(of: [Object(): "a"]))
        #expect(!ValueSemantics.isCertain(of: Hidden()))
    }
}
