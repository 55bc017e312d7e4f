import ForgeCoding
import ForgeStorage
import Foundation
import Testing

@testable import ForgeInspector

@Suite("A view of a key-value store") struct KeyValueViewTests {
    private struct Point: Codable, Sendable {
        var x: Int
        var y: Int
    }

    private let stores: TemporaryStores
    private let store: FileKVStore
    private let view: KeyValueView

    init() throws {
        stores = try TemporaryStores()
        store = try stores.keyValueStore()
        view = KeyValueView(FoundStore(kind: .keyValue, path: "settings"), in: try stores.root)
    }

    @Test("shows type, size, revision and value")
    func rows() throws {
        try store.set(KVKey<String>("a"), value: "text")
        try store.set(KVKey<Date>("b"), value: Date(timeIntervalSince1970: 0))
        try store.set(KVKey<Point>("c"), value: Point(x: 1, y: 2))
        try store.set(KVKey<UUID>("d"), value: UUID())
        let page = try view.page(.init(), offset: 0, limit: 10)
        #expect(page.rows.map(\.type) == ["string", "date", "map", "UUID"])
        #expect(page.rows[0].preview == "\"text\"")
        #expect(page.rows[2].preview == #"{"x":1,"y":2}"#)
        #expect(page.rows[0].revision == (try store.entry(named: "a"))?.revision)
        #expect(page.rows[0].size == (try store.entry(named: "a"))?.bytes.count)
    }

    @Test("returns only the rows of the window, and groups with their numbers")
    func windows() throws {
        for number in 0..<30 { try store.set(KVKey<Int>("g\(number % 3)/\(number)"), value: number) }
        let window = try view.page(.init(), offset: 10, limit: 5)
        #expect(window.total == 30)
        #expect(window.rows.count == 5)
        #expect(try view.page(.init(), offset: 29, limit: 5).rows.count == 1)
        #expect(try view.page(.init(), offset: 99, limit: 5).rows.isEmpty)
        let level = try view.page(.init(delimiter: "/"), offset: 1, limit: 5)
        #expect(level.total == 3)
        #expect(level.rows.map(\.key) == ["g1/", "g2/"])
        #expect(level.rows.map(\.count) == [10, 10])
    }

    @Test("has the rows of a prefix, and not of one that is an equal string of other bytes")
    func equalPrefixes() throws {
        try store.set(KVKey<Int>("\u{e9}/1"), value: 1)
        try store.set(KVKey<Int>("e\u{301}/2"), value: 2)
        for (prefix, digit) in [("\u{e9}/", "1"), ("e\u{301}/", "2")] {
            let page = try view.page(.init(prefix: prefix), offset: 0, limit: 10)
            #expect(page.rows.map { Array($0.key.utf8) } == [Array((prefix + digit).utf8)])
        }
    }

    @Test("has new rows after a refresh")
    func refresh() throws {
        try store.set(KVKey<Int>("a"), value: 1)
        let before = try view.page(.init(), offset: 0, limit: 10)
        try store.set(KVKey<Int>("b"), value: 1)
        #expect(view.refresh().map(\.name) == ["b"])
        let after = try view.page(.init(), offset: 0, limit: 10)
        #expect(after.rows.map(\.key) == ["a", "b"])
        #expect(after.version > before.version)
        #expect(view.summary.count == 2)
    }

    @Test("shows the value and the expiration that an expiring store has stored")
    func expiry() throws {
        let expiring = ExpiringKVStore(store)
        try expiring.set(KVKey<String>("token"), value: "x", expiresAt: Date(timeIntervalSince1970: 4e9))
        let value = try #require(try view.value(of: "token", decoders: []))
        #expect(value.value.expiry == 4e9)
        #expect(value.value.text == "\"x\"")
        #expect(value.value.type == "string")
    }

    @Test("shows a value of an app that has the members of an expiring one as it is")
    func alike() throws {
        struct Alike: Codable, Sendable {
            var e: Date
            var v: Data
        }
        try store.set(
            KVKey<Alike>("alike"), value: Alike(e: Date(timeIntervalSince1970: 4e9), v: Data([0xFF, 1])))
        let value = try #require(try view.value(of: "alike", decoders: [])).value
        #expect(value.type == "map")
        #expect(value.expiry == nil && !value.isExpiring)
    }

    @Test("previews 64 KiB of a larger value")
    func preview() throws {
        try store.set(KVKey<Data>("large"), value: Data(repeating: 7, count: 200_000))
        try store.set(KVKey<String>("limit"), value: String(repeating: "\n", count: 60_000))
        let value = try #require(try view.value(of: "large", decoders: []))
        #expect(value.value.isPreview)
        #expect(value.value.type == "bytes")
        #expect(value.value.text.utf8.count <= ShownValue.limit)
        #expect(value.size > 200_000)
        // Each cuts a character at another byte.
        for start in ["", "a", "ab"] {
            try store.set(KVKey<String>("long"), value: start + String(repeating: "€", count: 50_000))
            _ = view.refresh()
            let long = try #require(try view.value(of: "long", decoders: [])).value
            #expect(long.isPreview && long.type == "string")
            #expect(long.text.hasPrefix(start))
            let rest = long.text.dropFirst(start.count)
            #expect(rest.allSatisfy { $0 == "€" } && rest.count > 21_000)
        }
        let broken = ValueEnvelope(
            schemaVersion: 1, payload: [0x7A, 0, 1, 0x11, 0x70] + [UInt8](repeating: 0xFF, count: 70_000))
        try store.setRawValue(broken.encoded, named: "long")
        _ = view.refresh()
        let hexadecimal = try #require(try view.value(of: "long", decoders: [])).value
        #expect(hexadecimal.isPreview && hexadecimal.type == "string")
        #expect(hexadecimal.text.hasPrefix("7a 00 01 11 70 ff ff "))
        // 120,000 bytes of JSON.
        let escaped = try #require(try view.value(of: "limit", decoders: [])).value
        #expect(escaped.isPreview && !escaped.isJSON)
        #expect(escaped.text.utf8.count == ShownValue.limit)
    }

    @Test("asks the app's decoders, and shows their errors")
    func decoders() throws {
        try store.set(KVKey<Point>("points/a"), value: Point(x: 1, y: 2))
        try store.set(KVKey<String>("points/b"), value: "no point")
        let decoder = InspectorDecoder.values(of: Point.self, prefix: "points/") { "at \($0.x), \($0.y)" }
        let none = InspectorDecoder("none") { _, _ in nil }
        let shown = try #require(try view.value(of: "points/a", decoders: [none, decoder])).value.decoded
        #expect(shown.map(\.text) == ["at 1, 2"])
        #expect(shown.map(\.name) == ["Point"])
        let plain = InspectorDecoder.values(of: String.self, prefix: "points/b")
        let text = try #require(try view.value(of: "points/b", decoders: [plain])).value.decoded
        #expect(text.map(\.text) == ["no point"])
        let failed = try #require(try view.value(of: "points/b", decoders: [decoder])).value.decoded
        #expect(failed.first?.text.hasPrefix("cannot be decoded") == true)
    }

    @Test("shows a value that cannot be decoded as its bytes")
    func undecodable() throws {
        try store.setRawValue([0xFF, 1, 2], named: "odd")
        let value = try #require(try view.value(of: "odd", decoders: [])).value
        #expect(value.type == "undecodable")
        #expect(value.text.hasSuffix("ff 01 02 "))
        #expect(!value.isJSON)
    }

    @Test("finds sessions by their names")
    func sessions() throws {
        for name in ["session.user", "sessions/1", "other"] { try store.set(KVKey<Int>(name), value: 1) }
        #expect(try view.sessions(limit: 10).map(\.key) == ["session.user", "sessions/1"])
    }
}
