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
