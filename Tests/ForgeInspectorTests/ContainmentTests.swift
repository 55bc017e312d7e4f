import ForgeStorage
import Foundation
import Testing

@testable import ForgeInspector

/// A directory of a served tree is replaced by a link to one outside while the page runs.
@Suite("A served directory that is replaced by a link") struct ContainmentTests {
    private let stores: TemporaryStores
    private let outside: TemporaryStores
    private let inspector: Inspector

    init() async throws {
        stores = try TemporaryStores()
        outside = try TemporaryStores()
        for place in [stores, outside] {
            let name = place === outside ? "outside" : "inside"
            let store = try place.keyValueStore("app/settings")
            try store.set(KVKey<String>(name), value: name)
            try store.close()
            let key = try VaultKeyFile.loadOrCreate(at: place.place("app/key"))
            for number in 0..<(place === outside ? 2 : 1) {
                try VaultCrypt(at: place.place("app/vault"), key: key)
                    .set("x", for: CryptKey<String>(key: "\(name)\(number)"))
            }
            let cache = try BoundedCache<String>(directory: place.place("app/cache"), coding: .codable)
            await cache.insert("value", for: name)
            try Data("x".utf8).write(to: place.place("app/settings/quarantine-\(name)"))
            try Data(name.utf8).write(to: place.place("app/\(name).txt"))
        }
        inspector = try Inspector(stores.url)
    }

    /// Puts a link to the directory outside in the place of one inside.
    private func replace(_ name: String, of place: URL? = nil) throws {
        let inner = (place ?? stores.url).appending(path: name)
        try FileManager.default.moveItem(at: inner, to: stores.url.appending(path: "moved"))
        try FileManager.default.createSymbolicLink(at: inner, withDestinationURL: outside.place(name))
    }

    /// Every view of the inspector as JSON, or as its error.
    private func everything(_ names: [String]) throws -> String {
        inspector.refreshLogs()
        try inspector.refreshStores()
        var texts: [String] = []
        func add(_ body: () throws -> any Encodable) {
            do { texts.append(String(decoding: try JSONEncoder().encode(try body()), as: UTF8.self)) } catch {}
        }
        add { inspector.summary }
        add { inspector.timeline.events(after: 0) }
        for name in names {
            add { try inspector.files.list(name, offset: 0, limit: 100) }
            add { try inspector.files.preview(name + "/outside.txt", offset: 0) }
        }
        return texts.joined()
    }

    @Test("shows nothing of a store outside that takes the place of a store", arguments: ["app", "app/settings"])
    func keyValueStore(link: String) throws {
        let view = try #require(inspector.keyValueStore("app/settings"))
        #expect(try view.page(.init(), offset: 0, limit: 10).rows.map(\.key) == ["inside"])
        let map = try #require(try view.map(sectionCount: 8))
        #expect(try LogMap(map, of: view.store, in: inspector.root).quarantine.map(\.name) == ["quarantine-inside"])
        try replace(link)
        #expect(view.refresh().isEmpty)
        #expect(view.summary.failure != nil)
        #expect(try view.page(.init(), offset: 0, limit: 10).rows.map(\.key) == ["inside"])
        #expect(throws: (any Error).self) { try LogMap(map, of: view.store, in: inspector.root) }
        #expect(throws: (any Error).self) {
            try KeyValueView(view.store, in: inspector.root).page(.init(), offset: 0, limit: 10)
        }
        #expect(!(try everything(["app", "app/settings"])).contains("outside"))
        #expect(inspector.keyValueStore("app/settings") == nil)
    }

    @Test("is not edited", arguments: ["app", "app/settings"])
    func edits(link: String) throws {
        let found = try #require(inspector.keyValueStore("app/settings")).store
        try replace(link)
        let edits = StagedEdits(store: found.name, edits: [.init(key: "new", state: nil, json: "1")])
        #expect(throws: (any Error).self) { try edits.apply(to: found, in: inspector.root) }
        let names = try outside.keyValueStore("app/settings").keys()
        #expect(names == ["outside"])
    }

    @Test("is not the vault that is unlocked")
    func vault() throws {
        let view = try #require(inspector.vault("app/vault"))
        #expect(try view.content()?.count == 1)
        try replace("app")
        #expect(throws: CryptError.self) { try view.content() }
        let key = try #require(try VaultKeyFile.load(at: outside.place("app/key")))
        #expect(throws: CryptError.self) { try view.unlock(with: [key]) }
    }

    @Test("refuses writes to a vault that was opened for reading")
    func readOnlyVault() throws {
        let key = try #require(try VaultKeyFile.load(at: stores.place("app/key")))
        let vault = try VaultCrypt(reading: "app/vault", in: inspector.root, key: key)
        #expect(try vault.keys() == ["inside0"])
        #expect(throws: CryptError.self) { try vault.set("x", for: CryptKey<String>(key: "new")) }
        #expect(throws: CryptError.self) { try vault.deleteAll() }
        #expect(throws: CryptError.self) { try vault.delete(CryptKey<String>(key: "missing")) }
        #expect(try vault.keys() == ["inside0"])
    }

    @Test("is not listed as a cache", arguments: ["app", "app/cache"])
    func cache(link: String) throws {
        let found = try #require(inspector.cache("app/cache"))
        let before = try CacheContent(of: found, in: inspector.root, offset: 0, limit: 10)
        #expect(before.rows.map(\.name) == ["inside"])
        try replace(link)
        #expect(throws: FileSystemError.self) {
            try CacheContent(of: found, in: inspector.root, offset: 0, limit: 10)
        }
    }

    @Test("is not followed if it is the served directory itself, or one above it")
    func root() throws {
        let nested = try Inspector(stores.place("app/settings"))
        try replace("app")
        #expect(throws: FileSystemError.self) { try nested.files.list("", offset: 0, limit: 10) }
        #expect(throws: FileSystemError.self) { try nested.refreshStores() }
        let view = try #require(nested.keyValueStore("."))
        #expect(view.refresh().isEmpty && view.summary.failure != nil)
    }

    @Test("shows a directory that takes the place of the served one")
    func replaced() throws {
        let nested = try Inspector(stores.place("app/settings"))
        try FileManager.default.moveItem(at: stores.place("app/settings"), to: stores.place("app/moved"))
        #expect(throws: FileSystemError.self) { try nested.refreshStores() }
        let store = try stores.keyValueStore("app/settings")
        try store.set(KVKey<Int>("again"), value: 1)
        try nested.refreshStores()
        let view = try #require(nested.keyValueStore("."))
        #expect(try view.page(.init(), offset: 0, limit: 10).rows.map(\.key) == ["again"])
    }

    @Test("is served if the link was there first")
    func givenLink() throws {
        let link = stores.place("link")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: outside.place("app"))
        let linked = try Inspector(link)
        #expect(linked.summary.stores.map(\.name) == ["cache", "settings", "vault"])
        // The directory that was meant stays the one that is served.
        try FileManager.default.removeItem(at: link)
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: stores.place("app"))
        let names = try linked.files.list("", offset: 0, limit: 100).rows.map(\.name)
        #expect(names.contains("outside.txt"))
    }
}
