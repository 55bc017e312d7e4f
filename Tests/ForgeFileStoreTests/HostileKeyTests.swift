import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

@Suite("No key leads out of a store")
struct HostileKeyTests {
    @Test("the table has at least 300 different keys of both kinds")
    func table() {
        #expect(HostileKeys.all.count >= 300)
        #expect(Set(HostileKeys.all.map { Array($0.key.utf8) }).count == HostileKeys.all.count)
        #expect(HostileKeys.all.contains { $0.expectation == .plain })
        #expect(HostileKeys.all.allSatisfy { !$0.description.contains("\n") })
    }

    @Test(
        "every verb × every hostile key: refused, or a harmless file inside",
        arguments: [StoreKind.diskStoreOnDisk, .inMemoryStore])
    func everyVerb(_ kind: StoreKind) async throws {
        let directory = try TemporaryDirectory()
        try directory.write("canary 1", to: "outside/canary.txt")
        try directory.write("canary 2", to: "storeroom/canary.txt")
        let store: any FileStoring =
            switch kind {
            case .inMemoryStore: InMemoryFileStore()
            default: DiskFileStore(root: directory.url("store"), options: .init(durability: .none))
            }
        let outside = try [directory.tree("outside"), directory.tree("storeroom")]
        let beside = try names(of: directory)
        var escapes = 0
        for hostile in TestDepth.sample(HostileKeys.all, every: 5) {
            try await store.deleteAll()
            try await store.createDirectory("a/b")
            try await tryEveryVerb(hostile, store, directory)
            let isUntouched =
                try [directory.tree("outside"), directory.tree("storeroom")] == outside
                && names(of: directory).subtracting(["source"]) == beside
            if !isUntouched { escapes += 1 }
            #expect(isUntouched, "\(hostile) reached outside")
        }
        #expect(escapes == 0)
    }

    private func names(of directory: TemporaryDirectory) throws -> Set<String> {
        Set(try FileManager.default.contentsOfDirectory(atPath: directory.url.path)).union(["store"])
    }

    private func tryEveryVerb(
        _ hostile: HostileKey, _ store: any FileStoring, _ directory: TemporaryDirectory
    ) async throws {
        let key = hostile.key
        let content = Data("content".utf8)
        func use(_ verb: String, _ body: () async throws -> Void) async {
            do {
                try await body()
                #expect(hostile.expectation == .plain, "\(verb) took \(hostile)")
            } catch let error as FileStoreError {
                guard case .invalidKey = error.code else {
                    Issue.record("\(verb) of \(hostile): \(error)")
                    return
                }
                #expect(hostile.expectation == .refused, "\(verb): \(error)")
            } catch {
                Issue.record("\(verb) of \(hostile): untyped error \(error)")
            }
        }
        func expectEqual<Value: Equatable>(_ value: Value, _ expected: Value, _ what: String) throws {
            #expect(value == expected, "\(what)")
        }
        await use("save") { try await store.save(content, to: key) }
        await use("load") { try expectEqual(try await store.load(key), content, "\(hostile)") }
        #expect(await store.exists(key) == (hostile.expectation == .plain))
        await use("info") { try expectEqual(try await store.info(key).sizeInBytes, 7, "\(hostile)") }
        await use("size") { try expectEqual(try await store.size(key), 7, "\(hostile)") }
        await use("delete") { try await store.delete(key) }
        await use("exclusive save") { try await store.save(content, to: key, overwrite: false) }
        await use("delete again") { try await store.delete(key) }
        try directory.write("content", to: "source")
        await use("copy") { try await store.copy(from: directory.url("source"), to: key) }
        await use("move") { try await store.move(from: directory.url("source"), to: key) }
        await use("delete of the moved file") { try await store.delete(key) }
        await use("createDirectory") { try await store.createDirectory(key) }
        if !key.isEmpty {
            await use("list") { _ = try await store.list(in: key) }
            await use("recursive list") { _ = try await store.list(in: key, recursive: true) }
        }
        await use("deleteDirectory") { try await store.deleteDirectory(key) }
        if let disk = store as? DiskFileStore {
            await use("url") {
                let path = try POSIXPath(await disk.url(for: key))
                #expect(path == directory.path("store/" + key), "\(hostile)")
            }
        }
    }

    @Test("every component of a listed key can be used as a key")
    func listedKeys() async throws {
        let store = InMemoryFileStore()
        let plain = HostileKeys.all.filter { $0.expectation == .plain }
        for (number, hostile) in plain.enumerated() {
            let key = "n\(number)/" + hostile.key
            guard key.utf8.count <= RelativeKey.maximumLength, key.split(separator: "/").count <= 32 else { continue }
            try await store.save(Data("\(number)".utf8), to: key)
        }
        let files = try await store.list(recursive: true).filter { !$0.isDirectory }
        #expect(files.count > plain.count - 5)
        for file in files {
            let number = file.key.dropFirst().prefix { $0 != "/" }
            #expect(try await store.load(file.key) == Data(String(number).utf8))
        }
    }
}

@Suite("A text as a component of a key")
struct FileKeyTests {
    /// Hostile keys, each byte, and texts that fold or normalise to one another.
    private static let texts: [String] = {
        var texts = HostileKeys.all.map(\.key)
        texts += (0..<256).map { String(Character(Unicode.Scalar(UInt8($0)))) }
        texts += ["", "=", "==", "=2", "=41", "A", "a", "\u{e9}", "e\u{301}", "\u{212A}", "K", "k"]
        texts += ["ß", "ss", "SS", "ﬁ", "fi", "con", "CON", "con.txt", "com1", "com0", "lpt9.x", "nul.", "conn"]
        texts += [".a", "a.", "...", "a ", " a", "🔑"]
        return texts
    }()

    @Test("is a valid key of one component, that decodes to the text")
    func roundTrip() throws {
        for text in Self.texts {
            guard let component = try component(of: text) else { continue }
            let key = try RelativeKey("directory/" + component)
            #expect(key.string.split(separator: "/").count == 2, "\(text.debugDescription)")
            #expect(component.utf8.allSatisfy { $0.foldsToItself }, "\(component)")
            #expect(component.first != "." && component.last != "." && component.first != "#", "\(component)")
            #expect(FileKey.unescaping(component).map { Array($0.utf8) } == Array(text.utf8), "\(component)")
        }
    }

    @Test("is distinct for distinct texts, also where names are folded and normalised")
    func distinct() throws {
        var texts: [String: [UInt8]] = [:]
        for text in Self.texts {
            guard let component = try component(of: text) else { continue }
            let folded = component.lowercased().decomposedStringWithCompatibilityMapping
            let bytes = Array(text.utf8)
            #expect(texts.updateValue(bytes, forKey: folded) ?? bytes == bytes, "\(component)")
        }
    }

    @Test("of random texts keeps both promises", arguments: TestDepth.seeds([1, 2], random: 4))
    func random(_ seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let letters: [Unicode.Scalar] = [
            "a", "A", "=", ".", "/", "#", "%", "~", " ", "4", "c", "o", "n", "\0", "\n", "\\", "\u{301}", "é", "漢",
        ]
        var components: [String: [UInt8]] = [:]
        for _ in 0..<TestDepth.limit(1_000, deep: 100_000) {
            var text = String.UnicodeScalarView()
            for _ in 0..<Int.random(in: 0...6, using: &generator) {
                if let letter = letters.randomElement(using: &generator) { text.append(letter) }
            }
            let bytes = Array(String(text).utf8)
            let component = try FileKey.escaping(String(text))
            _ = try RelativeKey(component)
            let isExact = FileKey.unescaping(component).map { Array($0.utf8) } == bytes
            let isDistinct = components.updateValue(bytes, forKey: component) ?? bytes == bytes
            #expect(isExact && isDistinct, "seed \(seed): \(component)")
        }
    }

    @Test("of more than 255 bytes is a typed error", arguments: [("a", 255), ("é", 42), ("A", 85)])
    func tooLong(_ letter: String, _ count: Int) throws {
        let longest = String(repeating: letter, count: count)
        let component = try FileKey.escaping(longest)
        #expect(FileKey.unescaping(component) == longest)
        let error = #expect(throws: InvalidKey.self) { try FileKey.escaping(longest + letter) }
        #expect(error?.reason == .componentTooLong)
        let long = #expect(throws: InvalidKey.self) { try FileKey.escaping(String(repeating: letter, count: 10_000)) }
        #expect(long?.reason == .tooLong)
    }

    @Test(
        "is the only string that decodes",
        arguments: [
            "", "A", "=4", "=4g", "=4A", "=61", "a=", ".", "a.", ".a", "con", "nul.txt", "a/b", "é", "=ff", "==", "=3",
            String(repeating: "a", count: 256),
        ])
    func foreign(_ name: String) {
        #expect(FileKey.unescaping(name) == nil)
    }

    @Test("finds the file again in every store", arguments: [StoreKind.diskStoreOnDisk, .inMemoryStore])
    func stored(_ kind: StoreKind) async throws {
        let directory = try TemporaryDirectory()
        let store: any FileStoring =
            switch kind {
            case .inMemoryStore: InMemoryFileStore()
            default: DiskFileStore(root: directory.url("store"), options: .init(durability: .none))
            }
        let titles = ["../escape", "CON", "con", "#lock", "a/b", "\u{e9}", "e\u{301}", ""]
        for title in titles { try await store.save(Data(title.utf8), to: "notes/" + FileKey.escaping(title)) }
        let listed = try await store.list(in: "notes").map { FileKey.unescaping($0.name).map { Array($0.utf8) } }
        #expect(Set(listed) == Set(titles.map { Array($0.utf8) }))
        for title in titles {
            #expect(try await store.load("notes/" + FileKey.escaping(title)) == Data(title.utf8))
        }
    }

    /// The component of a text; nil if it is refused because it would be too long.
    private func component(of text: String) throws -> String? {
        do {
            return try FileKey.escaping(text)
        } catch {
            #expect([.componentTooLong, .tooLong].contains(error.reason) && text.utf8.count > 84, "\(error)")
            return nil
        }
    }
}

extension UInt8 {
    fileprivate var foldsToItself: Bool {
        switch self {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x80...: false
        default: true
        }
    }
}
