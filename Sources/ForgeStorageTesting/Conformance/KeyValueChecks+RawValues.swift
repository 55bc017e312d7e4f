import ForgeCoding
import ForgeKVStore

extension ConformanceChecks {
    static let keyValueErrors: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("read returns nil for an absent key and the value for a present one") { store in
            let key = KVKey<Int>("a")
            try expectEqual(try store.read(key), nil, "read of an absent key")
            try store.set(key, value: 1)
            try expectEqual(try store.read(key), 1, "read")
        },
        ConformanceCheck("read throws for a value of another type", needs: [.typedReads]) { store in
            try store.set(KVKey<String>("a"), value: "a secret value")
            let error = try await expectError(KVStoreError.self, "read") { try store.read(KVKey<Int>("a")) }
            try expectEqual(error.code, .undecodable, "code")
            try expectEqual(error.operation, .read, "operation")
            try expectEqual(error.key, "a", "key")
            try expect(!"\(error)".contains("secret"), "the error shows the value")
            try expect(!"\(error)".contains("\n"), "the error has more than one line")
            try expectEqual(try store.read(KVKey<String>("a")), "a secret value", "the value")
        },
        ConformanceCheck("read distinguishes a stored nil from an absent key") { store in
            let key = KVKey<String?>("a")
            try store.set(key, value: nil)
            try expect(try store.read(key) == .some(.none), "read does not give the stored nil")
            try expect(try store.read(KVKey<String?>("b")) == nil, "read of an absent key gives a value")
        },
        ConformanceCheck("read refuses a name that is too long", needs: [.typedReads]) { store in
            let key = KVKey<Int>(String(repeating: "x", count: 1025))
            let error = try await expectError(KVStoreError.self, "read") { try store.read(key) }
            try expectEqual(error.code, .invalidKey, "code")
            let removal = try await expectError(KVStoreError.self, "remove") { try store.remove(key) }
            try expectEqual(removal.code, .invalidKey, "code")
        },
        ConformanceCheck("the error for a value that cannot be encoded does not show it") { store in
            let error = try await expectError(KVStoreError.self, "set") {
                try store.set(KVKey<CheckUnencodable>("a"), value: CheckUnencodable())
            }
            try expectEqual(error.code, .unencodable, "code")
            try expectEqual(error.key, "a", "key")
            try expect(!"\(error)".contains("secret"), "the error shows the value")
            try expect(!store.contains(KVKey<Int>("a")), "there is a value now")
        },
    ]

    static let keyValueRawValues: [ConformanceCheck<any KVRawStoring>] = [
        ConformanceCheck("keys lists every name once") { store in
            try expectEqual(try store.keys(), [], "keys of an empty store")
            for name in hostileNames { try store.set(KVKey<Int>(name), value: 1) }
            try store.set(KVKey<Int?>("nil"), value: nil)
            let names = try store.keys().map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            let expected = (hostileNames + ["nil"]).map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            try expect(names == expected, "keys lists \(names.count) names in place of \(expected.count)")
        },
        ConformanceCheck("keys(prefix:) compares bytes") { store in
            let names = ["", "a", "A", "a.b", "a.b.c", "b", "e\u{301}", "\u{E9}", "e"]
            for name in names { try store.set(KVKey<Int>(name), value: 1) }
            for prefix in ["", "a", "a.b", "a.b.c.d", "e", "\u{E9}", "e\u{301}"] {
                let expected = names.filter { Array($0.utf8).starts(with: Array(prefix.utf8)) }
                let found = try store.keys(prefix: prefix)
                try expectEqual(
                    found.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) },
                    expected.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) },
                    "keys(prefix: \(KVKey<Int>(prefix)))")
            }
        },
        ConformanceCheck("keys omits removed keys") { store in
            for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
            try store.remove(KVKey<Int>("b"))
            try expectEqual(try store.keys().sorted(), ["a", "c"], "keys")
            try store.removeAll()
            try expectEqual(try store.keys(), [], "keys after removeAll")
        },
        ConformanceCheck("a raw value decodes to the value that was set") { store in
            try store.set(KVKey<[String: Int]>("a"), value: ["one": 1])
            guard let bytes = try store.rawValue(named: "a") else { throw ConformanceViolation("no raw value") }
            try expectEqual(try ValueCoder().decode([String: Int].self, from: bytes), ["one": 1], "decoded")
            try expect(try store.rawValue(named: "b") == nil, "an absent key has a raw value")
        },
        ConformanceCheck("a raw value can be stored under another name") { store in
            for (index, name) in ["int", "text", "struct", "nil"].enumerated() {
                switch index {
                case 0: try store.set(KVKey<Int>(name), value: -5)
                case 1: try store.set(KVKey<String>(name), value: "\u{1}")
                case 2: try store.set(KVKey<CheckProfile>(name), value: CheckProfile())
                default: try store.set(KVKey<Int?>(name), value: nil)
                }
                guard let bytes = try store.rawValue(named: name) else {
                    throw ConformanceViolation("\(name) has no raw value")
                }
                try store.setRawValue(bytes, named: "copy of \(name)")
            }
            try expectEqual(store.get(KVKey<Int>("copy of int")), -5, "int")
            try expectEqual(store.get(KVKey<String>("copy of text")), "\u{1}", "text")
            try expectEqual(store.get(KVKey<CheckProfile>("copy of struct")), CheckProfile(), "struct")
            try expect(store.get(KVKey<Int?>("copy of nil")) == .some(.none), "nil")
        },
        ConformanceCheck(
            "a raw value that is not a valid encoding is undecodable and is kept", needs: [.typedReads]
        ) {
            store in
            let bytes: [UInt8] = [0xFF, 0, 1, 2]
            try store.setRawValue(bytes, named: "a")
            try expect(store.contains(KVKey<Int>("a")), "contains is false")
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get")
            let error = try await expectError(KVStoreError.self, "read") { try store.read(KVKey<Int>("a")) }
            try expectEqual(error.code, .undecodable, "code")
            try expectEqual(try store.rawValue(named: "a"), bytes, "raw value")
            try store.set(KVKey<Int>("a"), value: 1)
            try expectEqual(store.get(KVKey<Int>("a")), 1, "get after set")
        },
        ConformanceCheck("setting a raw value replaces a value that was read before") { store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            try expectEqual(store.get(key), 1, "get")
            try store.setRawValue(try ValueCoder().encode(2), named: "a")
            try expectEqual(store.get(key), 2, "get after setRawValue")
        },
        ConformanceCheck("removeValue removes a key by its name") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<Int>("b"), value: 1)
            try store.removeValue(named: "a")
            try store.removeValue(named: "never there")
            try expectEqual(try store.keys(), ["b"], "keys")
        },
        ConformanceCheck("removeValue keeps names that begin with the removed one, in either case") { store in
            for name in ["a", "a2", "a/b", "A", "aa"] { try store.set(KVKey<Int>(name), value: 1) }
            try store.removeValue(named: "a")
            try expectEqual(Set(try store.keys()), ["a2", "a/b", "A", "aa"], "keys() after removeValue(named: a)")
        },
        ConformanceCheck("raw values refuse a name that is too long") { store in
            let name = String(repeating: "x", count: 1025)
            let calls: [(String, () throws -> Void)] = [
                ("rawValue", { _ = try store.rawValue(named: name) }),
                ("setRawValue", { try store.setRawValue([], named: name) }),
                ("removeValue", { try store.removeValue(named: name) }),
            ]
            for (call, body) in calls {
                let error = try await expectError(KVStoreError.self, "\(call)(named: 1,025 bytes)") { try body() }
                try expectEqual(error.code, .invalidKey, "the code of \(call)(named: 1,025 bytes)")
            }
        },
    ]
}
