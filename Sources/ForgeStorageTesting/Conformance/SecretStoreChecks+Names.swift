import ForgeCrypt

extension ConformanceChecks {
    static let secretNames: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("names are compared byte by byte") { store in
            let names = ["key", "Key", "KEY", "key ", " key", "key.", "keys", "ke", "\u{E9}", "e\u{301}", "ß", "ss"]
            for (index, name) in names.enumerated() { try store.set(index, for: CryptKey(key: name)) }
            for index in names.indices { try expectValue(index, of: names, in: store) }
        },
        ConformanceCheck("a name with a special meaning elsewhere is an ordinary name") { store in
            let names = SecretSamples.names
            for (index, name) in names.enumerated() { try store.set(index, for: CryptKey(key: name)) }
            for (index, name) in names.enumerated() {
                try expectValue(index, of: names, in: store)
                try store.delete(CryptKey<Int>(key: name))
                let isThere = try store.contains(CryptKey<Int>(key: name))
                try expectEqual(isThere, false, "contains(\(name.escaped)) after delete")
            }
        },
        ConformanceCheck("a name that is empty, too long or holds a NUL is refused by every call") { store in
            for name in SecretSamples.invalidNames {
                let (key, shown) = (CryptKey<String>(key: name), name.escaped)
                try expectSecretError(.invalidKey, .get, name, "get(\(shown))") { try store.get(key) }
                try expectSecretError(.invalidKey, .set, name, "set(\(shown))") { try store.set("v", for: key) }
                try expectSecretError(.invalidKey, .delete, name, "delete(\(shown))") { try store.delete(key) }
                try expectSecretError(.invalidKey, .contains, name, "contains(\(shown))") { try store.contains(key) }
            }
        },
        ConformanceCheck("keys lists every name in byte order", needs: [.keyListing]) { store in
            try expectEqual(try store.keys(), [], "keys of nothing")
            // Neither the order of Strings, which composes é, nor that of UTF-16, where the last two change places.
            let names = ["B", "a", "b", "e\u{301}", "z", "\u{E9}", "\u{FF5E}", "\u{1F600}"]
            let accessibilities = CryptAccessibility.allCases
            for (index, name) in (["a/1"] + names.reversed()).enumerated() {
                let accessibility = accessibilities[index % accessibilities.count]
                try store.set("text", for: CryptKey(key: name, accessibility: accessibility))
                try store.set(1, for: CryptKey(key: name, accessibility: accessibility))
            }
            try store.delete(CryptKey<Int>(key: "a/1"))
            let keys = try store.keys()
            try expect(
                keys.map { Array($0.utf8) } == names.map { Array($0.utf8) },
                "keys() of secrets of every accessibility, each set as text and as a number: "
                    + "expected \(shown(names)), got \(shown(keys))")
        },
    ]

    /// Checks that a name has its index as value, and otherwise says whose value it has.
    private static func expectValue(
        _ index: Int, of names: [String], in store: any CryptStoring, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let value = try store.get(CryptKey<Int>(key: names[index]))
        var other = "nil"
        if let value { other = names.indices.contains(value) ? "that of \(names[value].escaped)" : "\(value)" }
        try expect(
            value == index, "get(\(names[index].escaped)): expected its own value, got \(other)", file: file, line: line
        )
    }
}
