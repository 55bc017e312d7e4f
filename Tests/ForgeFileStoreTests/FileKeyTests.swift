import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

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
