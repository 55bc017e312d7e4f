/// A key that tries to escape from a store, collides with its internal names, or is unusual.
public struct HostileKey: Hashable, Sendable, CustomStringConvertible {
    /// The required behaviour of a store.
    public enum Expectation: String, Hashable, Sendable {
        /// Every call throws.
        case refused

        /// The key is valid, and its value stays inside the store.
        case plain
    }

    /// The key.
    public let key: String

    /// The required behaviour of a store.
    public let expectation: Expectation

    public var description: String {
        let text = key.unicodeScalars.prefix(60).map { $0.escaped(asASCII: true) }.joined()
        return "\(expectation.rawValue) \"\(text)\"\(key.unicodeScalars.count > 60 ? "…" : "")"
    }
}

/// About 400 hostile keys for a store whose root is a directory named `store`.
///
/// The test places the directories `outside` and `storeroom`, each with a file `canary.txt`, beside the root: many keys
/// aim at them. They must be unchanged after all keys have been used.
public enum HostileKeys {
    /// All keys, each once.
    public static let all: [HostileKey] =
        refused.map { HostileKey(key: $0, expectation: .refused) }
        + plain.map { HostileKey(key: $0, expectation: .plain) }

    private static let targets = ["outside/canary.txt", "storeroom/canary.txt", "outside"]

    private static let refused: [String] = unique(
        refusedPrefixes.flatMap { prefix in targets.map { prefix + $0 } } + dots + controls + long + reserved)

    private static let plain: [String] = unique(
        plainPrefixes.flatMap { prefix in targets.map { prefix + $0 } } + oddNames + deviceNames + limits)

    /// Escapes by `..` components, absolute paths, backslashes, and characters that end a C string or a line.
    private static let refusedPrefixes: [String] =
        (1...12).map { String(repeating: "../", count: $0) } + [
            "./", "./../", ".//../", "..//", "a/../../", "a/b/../../../", "../store/../", "../store/a/../../",
            "a/./../../",
            "/", "//", "///", "/../", "/./", "/proc/self/root/", "/proc/self/cwd/", "/dev/fd/3/", "//server/share/",
            "..\\", "..\\..\\", "\\", "\\\\?\\C:\\", "C:\\", "a\\..\\..\\", "..\\/", "..\0/", "\0", "../\0", "..\n/",
            "\r../", "\t../", "..\u{7f}/", "..\u{85}/", "a//", "a/../", "a/b/./../", "file:///", "file:///../",
        ]

    private static let dots = [
        "", ".", "..", "/", "//", "./", "../", "/.", "/..", "a/.", "a/..", "a/", "a//", "./a", "a/b/", "a/b/..",
        "a/../b",
        "a/./b", "a//b", "..//a", "/a", "a/b/c/../../../..", ".//.", "a/..//b",
    ]

    /// All control characters of ASCII and Latin 1.
    private static let controls: [String] = (Array(0...0x1f) + Array(0x7f...0x9f)).compactMap { value in
        Unicode.Scalar(UInt32(value)).map { "a\(Character($0))b" }
    }

    private static let long: [String] = [
        String(repeating: "a", count: 256), String(repeating: "a", count: 1025), String(repeating: "a", count: 100_000),
        String(repeating: "€", count: 86), "a/" + String(repeating: "b", count: 256),
        String(repeating: "a", count: 256) + "/b", components(33), components(34), components(200), components(5_000),
        Array(repeating: String(repeating: "a", count: 204), count: 5).joined(separator: "/") + "b",
    ]

    /// The longest and deepest valid keys.
    private static let limits: [String] = [
        String(repeating: "a", count: 255), String(repeating: "€", count: 85), components(32),
        Array(repeating: String(repeating: "a", count: 204), count: 5).joined(separator: "/"),
    ]

    /// Internal names of stores, and variants that a case-folding or normalising file system treats as equal.
    private static let reserved = [
        "#lock", "#lock2", "#LOCK", "#Lock", "#loc\u{212a}", "#l\u{200c}ock", "#lock\u{200d}", "#tmp-", "#tmp-x",
        "#TMP-x", "#tMp-x", "#t\u{feff}mp-x", "#tmp-abcdefghabcdefgh", "#trash-", "#trash-x", "#Trash-x",
        "#tra\u{17f}h-x", "#move-", "#move-x", "#Move-x", "a/#move-x",
        "a/#lock", "a/#tmp-x", "#tmp-x/a", "a/#trash-x/b", "#lock/a", "a/b/#LOCK", "#tmp-/../x",
    ]

    /// Traversal in an encoding that no store decodes, and other foreign path syntax.
    private static let plainPrefixes = [
        "..%2f", "%2e%2e/", "%2e%2e%2f", "%252e%252e%252f", "..%5c", "..%c0%af", "..%00/", "..;/", "..:/", ". ./",
        ".. /",
        " ../", "…/", "\u{2024}\u{2024}/", "\u{ff0e}\u{ff0e}/", "..\u{2215}", "..\u{ff0f}",
        "..\u{2044}", "..\u{200b}/", "..\u{200d}/", "\u{202e}..\u{202c}/", "\u{feff}../",
        "..\u{fe0f}/", "..\u{301}/", "~/", "~root/", "~+/", "C:/", "C:", "$HOME/", "${HOME}/", "`pwd`/", "$(pwd)/",
        "%HOME%/", ".../", "..../", "..a/", "a../", "-/", "*/",
    ]

    private static let oddNames =
        [
            "...", "....", "x.", "x..", "x ", " x", " ", "  ", ". ", " .", ".hidden", "..x", "x../y", ".a/.b",
            "a b/c d",
            "-rf", "--", "--help", "-", "~", "~root", "*", "?", "[a]", "{a,b}", "a|b", "a<b", "a>b", "a\"b", "a'b",
            "a`b",
            "a:b", "a::$DATA", "a$INDEX_ALLOCATION", "a;b", "a&b", "$(reboot)", "${IFS}", "!x", "%", "%%", "%00", "%2F",
            "%2e%2e", "%zz", "%n%s%x", "a%0ab", "a+b", "a=b", "a@b", "a,b", "#", "#1", "# lock", "lock", "\u{ff03}lock",
            "##lock", "#loc", "#tmp", "#trash", ".git/config", "Thumbs.db", ".DS_Store", "__MACOSX/x", ".snapshot",
            "lost+found", "store", "store/store",
        ] + [
            "caf\u{e9}", "cafe\u{301}", "\u{212b}", "\u{1f600}", "\u{202e}txt.exe", "a\u{2028}b", "a\u{2029}b",
            "a\u{ad}b",
            "\u{fffe}", "\u{ffff}", "\u{e000}", "\u{10ffff}", "\u{e0001}\u{e0041}", "\u{131}", "ß", "ẞ", "ﬁ", "\u{378}",
            // A lone surrogate, an overlong slash and an overlong NUL, as `String` repairs them.
            String(decoding: [0xed, 0xa0, 0x80] as [UInt8], as: UTF8.self),
            String(decoding: [0x2e, 0x2e, 0xc0, 0xaf, 0x78] as [UInt8], as: UTF8.self),
            String(decoding: [0x61, 0xc0, 0x80, 0x62] as [UInt8], as: UTF8.self),
        ]

    private static let deviceNames: [String] =
        (["con", "prn", "aux", "nul", "conin$", "conout$"] + (1...9).flatMap { ["com\($0)", "lpt\($0)"] })
        .flatMap { [$0, $0.uppercased() + ".txt", "a/" + $0] }

    private static func components(_ count: Int) -> String {
        Array(repeating: "d", count: count).joined(separator: "/")
    }

    /// Valid keys that `Character`s and bytes divide differently, and one for each byte of ASCII that a key may have: a
    /// slash is joined to its neighbour, equal strings are different names, bytes are invisible.
    package static let unevenNames: [String] =
        [
            "\u{301}a", "a\u{301}", "\u{e9}", "e\u{301}", "\u{600}f", "\u{600}/x", "d/\u{301}x",
            "\u{d4e}/\u{301}y/z", "a\u{600}/b", "x\u{200d}", "x", "\u{202e}txt.exe", "k\u{fe0f}",
            "\u{1f468}\u{200d}\u{1f469}", "\u{1100}\u{1161}", "\u{ac00}", "\u{c5}", "A\u{30a}", "\u{212b}",
            "\u{e0001}t", "u\u{2066}v\u{2069}", "-n", "--", "#", "~", "%2e%2e", "\u{1f1e9}\u{1f1ea}",
            "\u{1f1e9}\u{1f1ea}\u{1f1ea}",
        ]
        + (UInt8(0x21)...0x7e).filter { $0 != 0x2f && $0 != 0x5c }.map { (byte: UInt8) -> String in
            "ascii-" + String(UnicodeScalar(byte))
        }

    /// Removes duplicates by bytes: keys that Swift considers equal may differ in bytes.
    private static func unique(_ keys: [String]) -> [String] {
        var seen: Set<[UInt8]> = []
        return keys.filter { seen.insert(Array($0.utf8)).inserted }
    }
}
