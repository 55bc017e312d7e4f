import ForgeFileSystem
import ForgeStorageTesting
import Testing

@Suite("Keys that are relative paths")
struct RelativeKeyTests {
    @Test(
        "every rule has a distinct reason",
        arguments: [
            ("", InvalidKey.Reason.empty), (String(repeating: "a", count: 1025), .tooLong), ("a\0", .containsNUL),
            ("a\u{1b}[2J", .containsControlCharacter), ("a\u{9f}", .containsControlCharacter),
            ("a\\b", .containsBackslash),
            ("/a", .absolute), (Array(repeating: "a", count: 33).joined(separator: "/"), .tooDeep),
            ("a//b", .emptyComponent),
            ("a/", .emptyComponent), (String(repeating: "a", count: 256), .componentTooLong), ("a/..", .dotComponent),
            (".", .dotComponent), ("#tmp-a", .reserved), ("#move-a", .reserved), ("a/#LOCK", .reserved),
            ("#loc\u{212a}", .reserved),
            ("#tra\u{17f}h-", .reserved), ("#l\u{200c}ock", .reserved),
            ("\u{200c}#lock", .reserved), ("a/\u{200c}#lock", .reserved),
        ])
    func reasons(_ key: String, _ reason: InvalidKey.Reason) {
        #expect {
            try RelativeKey(key)
        } throws: { error in
            (error as? InvalidKey)?.reason == reason && (error as? InvalidKey)?.key == key
        }
    }

    @Test("hostile keys are accepted or refused as the table states", arguments: HostileKeys.all)
    func hostile(_ hostile: HostileKey) {
        do {
            let key = try RelativeKey(hostile.key)
            #expect(hostile.expectation == .plain)
            #expect(key.string.utf8.elementsEqual(hostile.key.utf8))
            #expect(key.path.bytes.elementsEqual(hostile.key.utf8))
        } catch {
            #expect(hostile.expectation == .refused, "\(error)")
            #expect("\(error)".contains(error.reason.rawValue))
            #expect(!"\(error)".contains("\n"))
        }
    }

    @Test("keys with different bytes are different, even if Swift considers their strings equal")
    func equality() throws {
        let (composed, decomposed) = (try RelativeKey("caf\u{e9}"), try RelativeKey("cafe\u{301}"))
        #expect(composed.string == decomposed.string)
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect(try RelativeKey("a/b") == RelativeKey("a/b"))
    }

    @Test("errors are equal if their keys have the same bytes and the reasons are the same")
    func equalErrors() throws {
        func error(_ key: String) -> InvalidKey? {
            do throws(InvalidKey) { _ = try RelativeKey(component: key) } catch { return error }
            return nil
        }
        let errors = try ["/\u{e9}", "/e\u{301}", "../", "a/b", ".."].map { try #require(error($0)) }
        #expect(errors.map(\.reason) == [.absolute, .absolute, .dotComponent, .severalComponents, .dotComponent])
        #expect(Set(errors).count == errors.count)
        for (number, first) in errors.enumerated() {
            for (other, second) in errors.enumerated() { #expect((first == second) == (number == other)) }
        }
        #expect(Set(errors + errors).count == errors.count)
    }

    @Test("the names of files that only roots of stores have are those of locks, records and markers")
    func markers() {
        for name in ["#lock", "#lock-", "#lock-vaults", "#journal-0", "#journal-4095", "#store-", "#store-files"] {
            #expect(POSIXPath(name).isStoreMarker && POSIXPath(name).isReservedName, "\(name)")
        }
        for name in ["#lockx", "#journal-", "#journal-x", "#journal-1x", "#journal-x1", "#store", "#tmp-a", "#a#"] {
            #expect(!POSIXPath(name).isStoreMarker, "\(name)")
        }
        for name in ["#lockx", "#journal-", "#journal-x", "#tmp-", "#trash-", "#move-", "##", "#a#"] {
            #expect(POSIXPath(name).isReservedName, "\(name)")
        }
        for name in ["", "#", "a#", "#a", "lock", "#loc", "#journal", "#store", "#tmp", "#trash", "#move"] {
            #expect(!POSIXPath(name).isReservedName, "\(name)")
        }
    }

    @Test("texts are compared, and divided, as the bytes that they are")
    func bytes() throws {
        for (text, end) in [
            ("ab", "ab"), ("ab", "b"), ("ab", ""), ("", ""), ("e\u{301}", "\u{301}"), ("\u{600}/", "/"),
        ] {
            #expect(text.hasByteSuffix(end) && text.droppingByteSuffix(end) != nil, "\(text) \(end)")
        }
        for (text, end) in [("b", "ab"), ("", "a"), ("ab", "a"), ("\u{E9}", "\u{301}"), ("\u{E9}", "e\u{301}")] {
            #expect(!text.hasByteSuffix(end) && text.droppingByteSuffix(end) == nil, "\(text) \(end)")
        }
        #expect("e\u{301}".droppingByteSuffix("\u{301}") == "e")
        #expect("a/\u{301}b".droppingBytePrefix("a/")?.hasSameBytes(as: "\u{301}b") == true)
        #expect("ab".droppingBytePrefix("ab") == "")
        #expect("ab".droppingBytePrefix("abc") == nil)
        #expect("ab".droppingBytePrefix("b") == nil)
        let sorted = ["e", "e\u{301}", "\u{E9}"]
        for (number, first) in sorted.enumerated() {
            for (other, second) in sorted.enumerated() { #expect(first.precedesInBytes(second) == (number < other)) }
        }
        for (text, before, after) in [
            ("a=b=c", "a", "b=c"), ("=", "", ""), ("=a", "", "a"), ("a=\u{301}", "a", "\u{301}"),
        ] {
            let parts = try #require(text.splitAtBytes("="))
            #expect(parts.before == before && parts.after.hasSameBytes(as: after), "\(text)")
        }
        let url = try #require("s3://a://b".splitAtBytes("://"))
        #expect(url.before == "s3" && url.after == "a://b")
        for text in ["", "s3", "s3:/", "s3:/a/"] { #expect(text.splitAtBytes("://")?.before == nil, "\(text)") }
    }

    @Test("a component is a key without a slash")
    func component() throws {
        #expect(try RelativeKey(component: "org.example").string == "org.example")
        #expect(throws: InvalidKey.self) { try RelativeKey(component: "a/b") }
        #expect(throws: InvalidKey.self) { try RelativeKey(component: "..") }
    }

    @Test("reserved names are made from 80 random bits and recognised")
    func reservedNames() {
        var bits: UInt64 = 0
        let names = (0..<1000).map { _ in
            POSIXPath.reserved(POSIXPath.temporaryPrefix) {
                bits &+= 0x9e37_79b9_7f4a_7c15
                return bits
            }
        }
        #expect(Set(names).count == 1000)
        #expect(names.allSatisfy { $0.isReservedName && $0.isLeftover && $0.count == 21 })
        #expect(POSIXPath.lockName.isReservedName)
        #expect(!POSIXPath.lockName.isLeftover)
        #expect(!POSIXPath("tmp-").isReservedName)
    }
}
