import ForgeCoding
import ForgeCrypt
import Foundation

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

extension ConformanceChecks {
    /// The promises of the calls for encoded values.
    static let secretRawValues: [ConformanceCheck<any CryptStoring>] = [
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
        ConformanceCheck("the calls for raw values refuse the names that the others refuse", needs: [.rawValues]) {
            store in
            let bytes = try ValueCoder().encode("value")
            for name in SecretSamples.invalidNames {
                let shown = name.escaped
                try expectSecretError(.invalidKey, .get, name, "rawValue(named: \(shown))") {
                    try store.rawValue(named: name)
                }
                try expectSecretError(.invalidKey, .set, name, "setRawValue(named: \(shown))") {
                    try store.setRawValue(bytes, named: name, accessibility: .whenUnlocked)
                }
                try expectSecretError(.invalidKey, .delete, name, "deleteValue(named: \(shown))") {
                    try store.deleteValue(named: name)
                }
            }
        },
        ConformanceCheck("the calls for raw values accept the names that the others accept", needs: [.rawValues]) {
            store in
            for (index, name) in SecretSamples.names.enumerated() {
                let shown = name.escaped
                let bytes = try ValueCoder().encode(index)
                try store.setRawValue(bytes, named: name, accessibility: .whenUnlocked)
                try expectEqual(
                    try store.get(CryptKey<Int>(key: name)), index, "get(\(shown)) after setRawValue(named: \(shown))")
                try expectEqual(try store.rawValue(named: name), bytes, "rawValue(named: \(shown))")
                try store.deleteValue(named: name)
                try expectEqual(
                    try store.contains(CryptKey<Int>(key: name)), false,
                    "contains(\(shown)) after deleteValue(named: \(shown))")
            }
        },
        ConformanceCheck("the calls for raw values find a secret of every accessibility", needs: [.rawValues]) {
            store in
            let (first, second) = (try ValueCoder().encode("first"), try ValueCoder().encode("second"))
            for accessibility in CryptAccessibility.allCases {
                for other in CryptAccessibility.allCases where other != accessibility {
                    let key = CryptKey<String>(key: "k", accessibility: accessibility)
                    try store.set("first", for: key)
                    let set = "set(k, \(accessibility))"
                    try expectEqual(try store.rawValue(named: "k"), first, "rawValue(named: k) after \(set)")
                    try store.setRawValue(second, named: "k", accessibility: other)
                    try expectEqual(
                        try store.get(key), "second",
                        "get(k) after setRawValue(named: k, accessibility: \(other)) and \(set)")
                    try store.deleteValue(named: "k")
                    try expectEqual(
                        try store.contains(key), false,
                        "contains(k) after deleteValue(named: k), setRawValue(named: k, accessibility: \(other)) and \(set)"
                    )
                }
            }
        },
        ConformanceCheck(
            "raw bytes that are no encoded value are stored, and only reading them typed is an error",
            needs: [.rawValues]
        ) { store in
            let (key, name) = (secretToken, secretToken.key)
            for bytes in [[], [0xFF, 0xFE, 0xFD], Array("no encoded value".utf8)] as [[UInt8]] {
                let what = "after setRawValue(\(bytes), named: \(name))"
                try store.setRawValue(bytes, named: name, accessibility: .whenUnlocked)
                try expectEqual(try store.rawValue(named: name), bytes, "rawValue(named: \(name)) \(what)")
                try expectEqual(try store.contains(key), true, "contains(\(name)) \(what)")
                try expectSecretError(.undecodable, .get, name, "get(\(name)) \(what)") { try store.get(key) }
                try expectEqual(try store.rawValue(named: name), bytes, "rawValue(named: \(name)) after get(\(name))")
            }
        },
        ConformanceCheck("a raw value replaces the one before", needs: [.rawValues]) { store in
            try store.set("first", for: secretToken)
            try store.set("second", for: secretRefresh)
            guard let raw = try store.rawValue(named: secretRefresh.key) else {
                throw ConformanceViolation("rawValue(named: auth.refresh): expected bytes, got nil")
            }
            try store.setRawValue(raw, named: secretToken.key, accessibility: .whenUnlocked)
            try expectEqual(try store.get(secretToken), "second", "get(auth.access) after setRawValue")
        },
        ConformanceCheck("raw values are those of the value coder", needs: [.rawValues]) { store in
            let bytes = try ValueCoder().encode("value")
            try store.setRawValue(bytes, named: secretToken.key, accessibility: .whenUnlocked)
            try expectEqual(try store.get(secretToken), "value", "get(auth.access) of a value that ValueCoder encoded")
            try store.set("value", for: secretRefresh)
            let raw = try store.rawValue(named: secretRefresh.key)
            try expect(raw == bytes, "rawValue(named: auth.refresh): expected the bytes of ValueCoder, got others")
        },
        ConformanceCheck("an encoded value of exactly 16 MiB is accepted, and no longer one", needs: [.rawValues]) {
            store in
            // The envelope is as long around every value of more than 65,535 bytes.
            let sizeAround = try ValueCoder().encode(Data(count: 1 << 16)).count - (1 << 16)
            let key = CryptKey<Data>(key: "large")
            try store.set(SecretSamples.tooLarge.dropLast(sizeAround + 1), for: key)
            guard let raw = try store.rawValue(named: key.key), raw.count == 16 << 20 else {
                throw ConformanceViolation("rawValue(named: large): expected 16 MiB, got another size, or nil")
            }
            try store.setRawValue(raw, named: key.key, accessibility: .whenUnlocked)
            try expect(
                try store.rawValue(named: key.key) == raw,
                "rawValue(named: large) after setRawValue(16 MiB): expected the same bytes, got others")
            try expectSecretError(
                .tooLarge, .set, key.key, "set(large) of a value that is encoded to 16 MiB and a byte"
            ) {
                try store.set(SecretSamples.tooLarge.dropLast(sizeAround), for: key)
            }
        },
        ConformanceCheck("a raw value of more than 16 MiB is refused, and the old one is kept", needs: [.rawValues]) {
            store in
            try store.set("small", for: secretToken)
            let bytes = [UInt8](repeating: 0, count: 16 << 20 + 1)
            try expectSecretError(.tooLarge, .set, secretToken.key, "setRawValue(16 MiB and a byte)") {
                try store.setRawValue(bytes, named: secretToken.key, accessibility: .whenUnlocked)
            }
            try expectEqual(try store.get(secretToken), "small", "get(auth.access) after")
        },
    ]
}
