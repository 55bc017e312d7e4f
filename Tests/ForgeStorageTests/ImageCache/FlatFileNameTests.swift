import ForgeStorage
import ForgeStorageTesting
import TestDepth
import Testing

@Suite("The name of a file for any key")
struct FlatFileNameTests {
    @Test(
        "a key of plain letters is its own name, other characters are escaped",
        arguments: [
            ("test_image", "test_image"), ("a-b_c.d0", "a-b_c.d0"), ("", "="), (".", "=2e"), ("..", "=2e=2e"),
            (".a.", "=2ea=2e"), ("a..b", "a..b"), ("../x", "=2e.=2fx"), ("a/b", "a=2fb"), ("Foo", "=46oo"),
            ("=", "=3d"),
            ("~a", "=7ea"), ("#lock", "=23lock"), ("é", "=c3=a9"), ("\0", "=00"), ("con", "=63on"),
            ("con.txt", "=63on.txt"),
            ("console", "console"), ("com1", "=63om1"), ("com0", "com0"), ("lpt9.x", "=6cpt9.x"), ("nul", "=6eul"),
            ("a b", "a=20b"), ("CON", "=43=4f=4e"),
        ])
    func shortForm(key: String, name: String) {
        #expect(FlatFileName(key).string == name)
        #expect(FlatFileName.key(of: name)?.utf8.elementsEqual(key.utf8) == true)
        #expect(FlatFileName.isName(name))
    }

    @Test("a key of 180 plain bytes is kept, one of 181 is hashed")
    func lengths() {
        let kept = String(repeating: "a", count: 180)
        #expect(FlatFileName(kept).string == kept)
        let hashed = FlatFileName(kept + "a").string
        #expect(hashed.utf8.count == 166)
        #expect(hashed.hasPrefix("~" + String(repeating: "a", count: 100) + "~"))
        #expect(FlatFileName.key(of: hashed) == nil)
        #expect(FlatFileName.isName(hashed))
    }

    @Test("the long form ends in the SHA-256 of the key")
    func knownDigest() {
        // The vector of a million letters a, from FIPS 180-2.
        #expect(
            FlatFileName(String(repeating: "a", count: 1_000_000)).string.hasSuffix(
                "~cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"))
    }

    @Test("the long form contains no partial escape", arguments: 0..<6)
    func escapesAreWhole(lead: Int) throws {
        let key = String(repeating: "a", count: lead) + String(repeating: "/", count: 100)
        let name = FlatFileName(key).string
        let kept = try #require(name.split(separator: "~").first)
        #expect((98...100).contains(kept.utf8.count))
        #expect(kept.dropFirst(lead).utf8.count % 3 == 0)
        #expect(FlatFileName.isName(name))
    }

    @Test(
        "only the names of keys are names",
        arguments: [
            "a/b", "A", "=2", "=2E", "=61", "=zz", "=+1", "a=", ".a", "a.", "con", "=ff", "==", "~a~b", "~", "#lock",
            "#tmp-a",
            " ", "é", String(repeating: "a", count: 181),
            "~" + String(repeating: "a", count: 100) + "~" + String(repeating: "A", count: 64),
            "~" + String(repeating: "a", count: 97) + "~" + String(repeating: "a", count: 64),
        ])
    func notAName(_ name: String) {
        #expect(!FlatFileName.isName(name))
        #expect(FlatFileName.key(of: name) == nil)
    }

    @Test("hostile keys get distinct, harmless names")
    func hostile() {
        var owners: [String: String] = [:]
        for key in hostileNames { checkName(of: key, owners: &owners) }
    }

    @Test("random keys have distinct names, and the short ones can be decoded", arguments: [1] as [UInt64])
    func random(seed: UInt64) {
        let count = TestDepth.limit(5_000, deep: 50_000)
        var generator = SplitMix64(seed: seed)
        let alphabet = Array("aAbB019-_.=~#/\\ %é\u{301}e👩\0\u{7f}conulx").flatMap { Array(String($0).unicodeScalars) }
        var owners: [String: String] = [:]
        owners.reserveCapacity(2 * count)
        var keys: Set<[UInt8]> = []
        while keys.count < count {
            let length = generator.next() % 8 == 0 ? 150 + Int(generator.next() % 100) : Int(generator.next() % 12)
            var key = String.UnicodeScalarView()
            for _ in 0..<length { key.append(alphabet[Int(generator.next() % UInt64(alphabet.count))]) }
            guard keys.insert(Array(String(key).utf8)).inserted else { continue }
            checkName(of: String(key), owners: &owners)
        }
        for number in 0..<count { checkName(of: "User/\(number)", owners: &owners) }
        #expect(owners.count == 2 * count)
    }

    private func checkName(of key: String, owners: inout [String: String]) {
        let name = FlatFileName(key).string
        // Comparing once per key keeps the loop fast; a failure shows the key.
        let isHarmless = name.utf8.allSatisfy { byte in
            (97...122).contains(byte) || (48...57).contains(byte) || [45, 46, 61, 95, 126].contains(byte)
        }
        let isShort = !name.hasPrefix("~")
        let leadsBack =
            isShort ? FlatFileName.key(of: name)?.utf8.elementsEqual(key.utf8) == true : FlatFileName.isName(name)
        let isWhole = (1...180).contains(name.utf8.count) && name.first != "." && name.last != "."
        if !isHarmless || !leadsBack || !isWhole {
            Issue.record("the key \(key.debugDescription) has the name \(name.debugDescription)")
        }
        if let owner = owners.updateValue(key, forKey: name), !owner.utf8.elementsEqual(key.utf8) {
            Issue.record("\(key.debugDescription) and \(owner.debugDescription) share the name \(name)")
        }
    }
}
