import ForgeKVStore
import Foundation

extension ConformanceChecks {
    static let keyValueNames: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("every text is a distinct name") { store in
            let names = hostileNames
            for (index, name) in names.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            for (index, name) in names.enumerated() {
                try expectEqual(store.get(KVKey<Int>(name)), index, "the value of \(KVKey<Int>(name))")
            }
            for (index, name) in names.enumerated() where index.isMultiple(of: 2) {
                try store.remove(KVKey<Int>(name))
            }
            for (index, name) in names.enumerated() {
                try expectEqual(
                    store.contains(KVKey<Int>(name)), !index.isMultiple(of: 2), "contains \(KVKey<Int>(name))")
            }
        },
        ConformanceCheck("a name may have 1,024 bytes", needs: [.longestNames]) { store in
            for name in longestNames {
                try store.set(KVKey<String>(name), value: String(name.prefix(1)))
                try expectEqual(store.get(KVKey<String>(name)), String(name.prefix(1)), "\(KVKey<Int>(name))")
                try store.remove(KVKey<String>(name))
                try expect(!store.contains(KVKey<String>(name)), "contains a removed name")
            }
        },
        ConformanceCheck("canonically equivalent names are different keys") { store in
            try store.set(KVKey<Int>("\u{E9}"), value: 1)
            try store.set(KVKey<Int>("e\u{301}"), value: 2)
            try expectEqual(store.get(KVKey<Int>("\u{E9}")), 1, "the composed name")
            try expectEqual(store.get(KVKey<Int>("e\u{301}")), 2, "the decomposed name")
        },
        ConformanceCheck("names that differ in case are different keys") { store in
            try store.set(KVKey<Int>("name"), value: 1)
            try store.set(KVKey<Int>("NAME"), value: 2)
            try expectEqual(store.get(KVKey<Int>("name")), 1, "name")
            try expectEqual(store.get(KVKey<Int>("NAME")), 2, "NAME")
        },
        ConformanceCheck("a name that is a prefix of another is a distinct key") { store in
            let names = ["a", "a.b", "a.b.c", "a/b", "a/b/c"]
            for (index, name) in names.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            try store.remove(KVKey<Int>("a.b"))
            try store.remove(KVKey<Int>("a/b"))
            try expectEqual(
                names.map { store.get(KVKey<Int>($0)) }, [0, nil, 2, nil, 4], "what is left")
        },
        ConformanceCheck("a name longer than 1,024 bytes is refused and changes nothing") { store in
            let key = KVKey<Int>(String(repeating: "é", count: 513))
            let error = try await expectError(KVStoreError.self, "set") { try store.set(key, value: 1) }
            try expectEqual(error.code, .invalidKey, "code")
            try expectEqual(store.get(key), nil, "get")
            try expect(!store.contains(key), "contains is true")
        },
        ConformanceCheck("many keys keep distinct values") { store in
            for index in 0..<300 { try store.set(KVKey<String>("key \(index)"), value: "value \(index)") }
            for index in 0..<300 {
                try expectEqual(store.get(KVKey<String>("key \(index)")), "value \(index)", "key \(index)")
            }
        },
    ]

    /// Names that break stores which treat them as paths, patterns, properties or markup.
    static let hostileNames = [
        "", " ", ".", "..", "../x", "../../etc/passwd", "/", "/etc/passwd", "a/../b", "~", "~root", "a\0b", "\0", "\n",
        "\r\n",
        "\u{1}", "\u{7F}", "\u{FEFF}", "\u{202E}abc", "é", "e\u{301}", "ß", "ss", "İ", "😀", "<key>", "&amp;", "%2e%2e",
        "%", "#lock",
        "#tmp-x", "#forge:", "#forge:%00", "log", "NSGlobalDomain", "AppleLanguages.x", "@count", "self", "a.b", "a[0]",
        "*", "?",
        "$(id)", "'; --", "con", "nul.txt", "A", "a", String(repeating: "x", count: 900),
        String(repeating: "é", count: 450),
    ]

    static let longestNames = [String(repeating: "x", count: 1024), String(repeating: "é", count: 512)]
}
