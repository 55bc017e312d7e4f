import ForgeStorageTesting

/// The hostile keys of the published table, and names that lead elsewhere, break a path, or are special on some system.
let hostileNames: [String] = unique(
    HostileKeys.all.map(\.key)
        + [
            "", ".", "..", "../x", "../../x", "a/../../x", "/etc/passwd", "//x", "a/b", "a//b", "a/", "a/.", "./a", "~",
            "~root",
            "~/x", "a\0b", "\0", "a\nb", "a\\b", "..\\x", "C:\\x", "C:x", "\\\\host\\share", "con", "CON", "con.txt",
            "nul",
            "aux",
            "com1", "lpt9", "%2e%2e%2fx", "%2F", "%00", "%", "a%", "x.cache", ".cache", ".hidden", "trailing.",
            "trailing ",
            " ",
            "#lock", "#tmp-x", "#trash-x", "=", "=2e", "a=41", "~a~b", "$HOME", "$(id)", "`id`", "-rf", "--", "*", "?",
            "a:b", "a;b",
            "é", "e\u{301}", "ß", "ss", "SS", "İ", "ı", "\u{202e}abc", "\u{200b}", "\u{feff}", "👩‍👩‍👧‍👦", "日本語", "\u{fffd}",
            "Foo", "foo", "FOO", "\u{7f}", "\u{1b}[2J", "file:///etc/passwd", "http://x/y",
        ]
        + [100, 180, 181, 255, 256, 300, 1024, 1025, 4096, 100_000].map { String(repeating: "a", count: $0) }
        + [60, 61, 300].map { String(repeating: "é", count: $0) }
        + (1...40).map { String(repeating: "../", count: $0) + "escaped" })

/// Byte by byte: strings that Swift considers equal are two names.
private func unique(_ names: [String]) -> [String] {
    var seen: Set<[UInt8]> = []
    return names.filter { seen.insert(Array($0.utf8)).inserted }
}
