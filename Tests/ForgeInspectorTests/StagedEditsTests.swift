import ForgeCoding
import ForgeStorage
import Foundation
import Testing

@testable import ForgeInspector

@Suite("Staged edits") struct StagedEditsTests {
    private let stores: TemporaryStores

    init() throws {
        stores = try TemporaryStores()
    }

    private func apply(_ edits: [StagedEdits.Edit]) throws {
        try StagedEdits(store: "settings", edits: edits).apply(
            to: FoundStore(kind: .keyValue, path: "settings"), in: stores.root)
    }

    private func make(_ body: (FileKVStore) throws -> Void) throws {
        let store = try stores.keyValueStore()
        try body(store)
        try store.close()
    }

    /// The state of a value as a page receives it.
    private func state(_ key: String) throws -> String? {
        try KeyValueView(FoundStore(kind: .keyValue, path: "settings"), in: stores.root).value(of: key, decoders: [])?
            .state
    }

    @Test("are stored together, in the types of the old values")
    func stored() throws {
        try make { store in
            try store.set(KVKey<Double>("scale"), value: 1.5)
            try store.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 0))
            try store.set(KVKey<Int>("gone"), value: 1)
        }
        try apply([
            .init(key: "scale", state: state("scale"), json: "2"),
            .init(key: "date", state: state("date"), json: "\"1970-01-02T00:00:00.000Z\""),
            .init(key: "gone", state: state("gone"), json: nil),
            .init(key: "new", state: nil, json: "[1]"),
        ])
        let store = try stores.keyValueStore()
        #expect(try store.read(KVKey<Double>("scale")) == 2)
        #expect(try store.read(KVKey<Date>("date")) == Date(timeIntervalSince1970: 86_400))
        #expect(!store.contains(KVKey<Int>("gone")))
        #expect(try store.read(KVKey<[Int]>("new")) == [1])
    }

    @Test("are refused where the store may not be edited, and change nothing")
    func refusal() throws {
        try make { store in try store.set(KVKey<Int>("a"), value: 1) }
        let log = try Data(contentsOf: stores.place("settings/log"))
        let edits = StagedEdits(store: "settings", edits: [.init(key: "a", state: try state("a"), json: "2")])
        #expect {
            try edits.apply(to: FoundStore(kind: .keyValue, path: "settings"), in: stores.root) { _ in "a reason" }
        } throws: { ($0 as? EditFailure)?.description == "a reason" }
        #expect(try Data(contentsOf: stores.place("settings/log")) == log)
    }

    @Test("are refused if a revision has moved, and change nothing")
    func moved() throws {
        try make { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<Int>("b"), value: 1)
        }
        let old = try state("b")
        try make { store in try store.set(KVKey<Int>("b"), value: 2) }
        #expect {
            try apply([.init(key: "a", state: state("a"), json: "9"), .init(key: "b", state: old, json: "9")])
        } throws: { ($0 as? KVStoreError)?.code == .conflict }
        #expect { try apply([.init(key: "a", state: nil, json: "9")]) } throws: {
            ($0 as? KVStoreError)?.code == .conflict
        }
        #expect(try stores.keyValueStore().read(KVKey<Int>("a")) == 1)
    }

    @Test("are refused if another store with equal revisions has taken the place, unless the value is equal")
    func otherStore() throws {
        try make { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<Int>("b"), value: 1)
        }
        let states = (a: try state("a"), b: try state("b"))
        try FileManager.default.removeItem(at: stores.place("settings"))
        try make { store in
            try store.set(KVKey<Int>("a"), value: 2)
            try store.set(KVKey<Int>("b"), value: 1)
        }
        #expect { try apply([.init(key: "a", state: states.a, json: "9")]) } throws: {
            ($0 as? KVStoreError)?.code == .conflict && ($0 as? KVStoreError)?.key == "a"
        }
        #expect(throws: KVStoreError.self) { try apply([.init(key: "a", state: states.a, json: nil)]) }
        try apply([.init(key: "b", state: states.b, json: "9")])
        let store = try stores.keyValueStore()
        #expect(try store.read(KVKey<Int>("a")) == 2)
        #expect(try store.read(KVKey<Int>("b")) == 9)
    }

    @Test("of a value whose beginning alone was shown are refused")
    func largeValue() throws {
        try make { store in try store.set(KVKey<Data>("large"), value: Data(count: ShownValue.limit)) }
        #expect(try state("large") == nil)
        #expect { try apply([.init(key: "large", state: state("large"), json: nil)]) } throws: {
            ($0 as? KVStoreError)?.code == .conflict
        }
    }

    @Test("keep the expiration and the version of the value")
    func keepsWrapping() throws {
        try make { store in
            try ExpiringKVStore(store).set(
                KVKey<String>("token"), value: "a", expiresAt: Date(timeIntervalSince1970: 4e9))
            let envelope = ValueEnvelope(schemaVersion: 7, payload: try CodedValue.integer(1).encoded())
            try store.setRawValue(envelope.encoded, named: "versioned")
        }
        try apply([
            .init(key: "token", state: state("token"), json: "\"b\""),
            .init(key: "versioned", state: state("versioned"), json: "2"),
        ])
        let store = try stores.keyValueStore()
        let expiring = ExpiringKVStore(store)
        #expect(try expiring.read(KVKey<String>("token")) == "b")
        #expect(try expiring.expiration(of: KVKey<String>("token")) == Date(timeIntervalSince1970: 4e9))
        let bytes = try #require(try store.rawValue(named: "versioned"))
        #expect(try ValueEnvelope(decoding: bytes).schemaVersion == 7)
    }

    @Test("create no store")
    func noStore() throws {
        #expect { try apply([.init(key: "a", state: nil, json: "1")]) } throws: {
            ($0 as? KVStoreError)?.code == .noStore
        }
        #expect(!FileManager.default.fileExists(atPath: stores.place("settings").path))
    }

    @Test("open no directory that no store has marked, whatever its file log is", arguments: [true, false])
    func unmarked(isLog: Bool) throws {
        try make { store in try store.set(KVKey<Int>("a"), value: 1) }
        let log = try isLog ? Data(contentsOf: stores.place("settings/log")) : Data("notes of an app".utf8)
        try FileManager.default.removeItem(at: stores.place("settings"))
        try FileManager.default.createDirectory(at: stores.place("settings"), withIntermediateDirectories: true)
        try log.write(to: stores.place("settings/log"))
        #expect { try apply([.init(key: "new", state: nil, json: "1")]) } throws: {
            ($0 as? KVStoreError)?.code == .noStore
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: stores.place("settings").path) == ["log"])
        #expect(try Data(contentsOf: stores.place("settings/log")) == log)
    }

    @Test(
        "of a text that does not have the form of the old value are refused",
        arguments: [
            (CodedValue.date(Date(timeIntervalSince1970: 0)), "\"tomorrow\""),
            (.bytes([1]), "\"no base64!\""),
            (.map([.init(.string("id"), .tagged(37, .bytes([UInt8](repeating: 1, count: 16))))]), "{\"id\": \"x\"}"),
            (.array([.date(Date(timeIntervalSince1970: 0))]), "[\"x\"]"),
            (.integer(1), "{"), (.integer(1), "1.5"), (.integer(1), "\"Infinity\""), (.integer(1), "true"),
            (.double(1), "\"high\""), (.float(1), "1e300"), (.bool(true), "1"), (.string("a"), "1"),
            (.string("a"), "[\"a\"]"), (.array([.integer(1)]), "{}"), (.map([]), "[]"), (.bytes([1]), "1"),
            (.date(Date(timeIntervalSince1970: 0)), "1e12"), (.date(Date(timeIntervalSince1970: 0)), "12"),
            (.tagged(37, .bytes([UInt8](repeating: 1, count: 16))), "1"), (.tagged(32, .string("https://a.b")), "1"),
            (.array([.integer(1)]), "[1, \"x\"]"), (.tagged(4, .array([.integer(-2), .integer(1999)])), "1.5"),
        ])
    func form(old: CodedValue, text: String) throws {
        #expect(throws: (any Error).self) { try CodedValue.edited(text, replacing: old) }
    }

    @Test("keep the type of a number that JSON cannot represent, and put nil into any place and anything for nil")
    func keptTypes() throws {
        #expect(try CodedValue.edited("\"Infinity\"", replacing: .double(1)) == .double(.infinity))
        #expect(try CodedValue.edited("\"-Infinity\"", replacing: .float(1)) == .float(-.infinity))
        #expect(try CodedValue.edited("2", replacing: .double(.infinity)) == .double(2))
        #expect(try CodedValue.edited("null", replacing: .integer(1)) == .null)
        #expect(try CodedValue.edited("[1]", replacing: .null) == .array([.integer(1)]))
        #expect(try CodedValue.edited("[1, 2]", replacing: .array([])) == .array([.integer(1), .integer(2)]))
        #expect(try CodedValue.edited("2.5", replacing: .float(1)) == .float(2.5))
        #expect(try CodedValue.edited("\"AgM=\"", replacing: .bytes([1])) == .bytes([2, 3]))
        let zeros = CodedValue.tagged(37, .bytes([UInt8](repeating: 0, count: 16)))
        #expect(
            try CodedValue.edited("\"00010203-0405-0607-0809-0A0B0C0D0E0F\"", replacing: zeros)
                == .tagged(37, .bytes(Array(0..<16))))
        #expect(
            try CodedValue.edited(#"{"a": 2, "b": true}"#, replacing: .map([.init(.string("a"), .double(1))]))
                == .map([.init(.string("a"), .double(2)), .init(.string("b"), .bool(true))]))
    }

    @Test("leave what was not edited as it is")
    func unedited() throws {
        let old = CodedValue.map([
            .init(.string("price"), .tagged(4, .array([.integer(-2), .integer(1999)]))),
            .init(.string("scale"), .float(1.5)), .init(.string("data"), .bytes([1, 2])),
            .init(.string("text"), .string("a")),
        ])
        let new = try old.json().replacing("\"a\"", with: "\"b\"")
        var expected = old
        if case .map(var entries) = old {
            entries[3].value = .string("b")
            expected = .map(entries)
        }
        #expect(try CodedValue.edited(new, replacing: old) == expected)
    }

    @Test("tell canonically equal texts and members apart")
    func canonicallyEqual() throws {
        func edited(_ json: String, _ old: CodedValue) throws -> [UInt8] {
            try CodedValue.edited(json, replacing: old).encoded()
        }
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        #expect(try edited("\"\(decomposed)\"", .string(composed)) == CodedValue.string(decomposed).encoded())
        let old = CodedValue.map([
            .init(.string(composed), .integer(1)), .init(.string(decomposed), .string("text")),
        ])
        let new = CodedValue.map([
            .init(.string(composed), .integer(1)), .init(.string(decomposed), .string("other")),
        ])
        #expect(try edited(new.json(), old) == new.encoded())
        #expect(throws: EditFailure.self) { try edited("{\"\(decomposed)\": 7}", old) }
    }
}
