import ForgeCrypt

extension ConformanceChecks {
    static let secretNames: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("names are compared byte by byte") { store in
            let names = ["key", "Key", "KEY", "key ", " key", "key.", "keys", "ke", "\u{E9}", "e\u{301}", "ß", "ss"]
            for (index, name) in names.enumerated() { try store.set(index, for: CryptKey(key: name)) }
            for (index, name) in names.enumerated() {
                try expectEqual(try store.get(CryptKey<Int>(key: name)), index, "name \(index)")
            }
        },
        ConformanceCheck("a name with a special meaning elsewhere is an ordinary name") { store in
            let names = [
                "../x", "/etc/passwd", "a/b", "a", ".", "..", "~", "%00", "%2e%2e", "#lock", "con", "\n", "'; DROP",
                "\\", "*", "🔑", String(repeating: "n", count: 1024),
            ]
            for (index, name) in names.enumerated() { try store.set(index, for: CryptKey(key: name)) }
            for (index, name) in names.enumerated() {
                try expectEqual(try store.get(CryptKey<Int>(key: name)), index, "name \(index)")
                try store.delete(CryptKey<Int>(key: name))
                try expect(try !store.contains(CryptKey<Int>(key: name)), "name \(index) after delete")
            }
        },
        ConformanceCheck("a name that is empty, too long or holds a NUL is refused by every call") { store in
            for name in ["", String(repeating: "n", count: 1025), "a\u{0}b"] {
                let key = CryptKey<String>(key: name)
                try await expectSecretError(.invalidKey, "get") { try store.get(key) }
                try await expectSecretError(.invalidKey, "set") { try store.set("v", for: key) }
                try await expectSecretError(.invalidKey, "delete") { try store.delete(key) }
                try await expectSecretError(.invalidKey, "contains") { try store.contains(key) }
            }
        },
        ConformanceCheck("keys lists every name in byte order", needs: [.keyListing]) { store in
            try expectEqual(try store.keys(), [], "keys of nothing")
            for name in ["b", "a/1", "B", "e\u{301}", "a"] { try store.set(1, for: CryptKey(key: name)) }
            try store.delete(CryptKey<Int>(key: "a/1"))
            let names = try store.keys().map { Array($0.utf8) }
            try expectEqual(names, ["B", "a", "b", "e\u{301}"].map { Array($0.utf8) }, "keys")
        },
        ConformanceCheck("raw values are those that the typed calls read and write", needs: [.rawValues]) { store in
            try expectEqual(try store.rawValue(named: "auth.access"), nil, "raw value of nothing")
            try store.set("token", for: secretToken)
            guard let raw = try store.rawValue(named: "auth.access") else {
                throw ConformanceViolation("no raw value of a secret that was set")
            }
            try store.setRawValue(raw, named: "auth.refresh", accessibility: .whenUnlocked)
            try expectEqual(try store.get(secretRefresh), "token", "get of a raw value")
            try store.deleteValue(named: "auth.refresh")
            try store.deleteValue(named: "auth.refresh")
            try expectEqual(try store.get(secretRefresh), nil, "get after deleting by name")
        },
    ]
}
