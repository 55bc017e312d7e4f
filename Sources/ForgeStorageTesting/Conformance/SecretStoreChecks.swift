public import ForgeCrypt

extension ConformanceChecks {
    /// The promises of a secret store; each check needs a new, empty store.
    public static let secretStore: [ConformanceCheck<any CryptStoring>] =
        secretPresence + secretCreation + secretValues + secretNames + secretFailures + secretConcurrency
}

extension ConformanceChecks {
    static let secretToken = CryptKey<String>(key: "auth.access")
    static let secretRefresh = CryptKey<String>(key: "auth.refresh")

    static let secretPresence: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("a secret that was never set is nil") { store in
            try expectEqual(try store.get(secretToken), nil, "get")
        },
        ConformanceCheck("a value that was set is returned") { store in
            try store.set("token123", for: secretToken)
            try expectEqual(try store.get(secretToken), "token123", "get")
            try expectEqual(try store.get(secretToken), "token123", "get again")
        },
        ConformanceCheck("setting again replaces the value") { store in
            try store.set("first", for: secretToken)
            try store.set("second", for: secretToken)
            try expectEqual(try store.get(secretToken), "second", "get")
        },
        ConformanceCheck("a shorter value fully replaces a longer one") { store in
            try store.set(String(repeating: "x", count: 10_000), for: secretToken)
            try store.set("y", for: secretToken)
            try expectEqual(try store.get(secretToken), "y", "get")
        },
        ConformanceCheck("a deleted secret is nil, the others are kept") { store in
            try store.set("a", for: secretToken)
            try store.set("b", for: secretRefresh)
            try store.delete(secretToken)
            try expectEqual(try store.get(secretToken), nil, "get")
            try expectEqual(try store.get(secretRefresh), "b", "get of the other")
        },
        ConformanceCheck("deleting a secret keeps those whose names begin with its name, in either case") { store in
            let others = ["key2", "key.b", "key/b", "KEY", "kez"]
            for name in ["key"] + others { try store.set(name, for: CryptKey<String>(key: name)) }
            try store.delete(CryptKey<String>(key: "key"))
            for name in others {
                try expectEqual(try store.get(CryptKey<String>(key: name)), name, "get(\(name)) after delete(key)")
            }
        },
        ConformanceCheck("deleting a missing secret succeeds") { store in
            try store.delete(secretToken)
            try store.set("a", for: secretRefresh)
            try store.delete(secretToken)
            try store.delete(secretToken)
            try expectEqual(try store.get(secretRefresh), "a", "get of the other")
        },
        ConformanceCheck("contains is true exactly while there is a value") { store in
            try expect(try !store.contains(secretToken), "contains before set")
            try store.set("a", for: secretToken)
            try expect(try store.contains(secretToken), "contains after set")
            try store.delete(secretToken)
            try expect(try !store.contains(secretToken), "contains after delete")
        },
        ConformanceCheck("contains ignores the type of the value") { store in
            try store.set("a", for: secretToken)
            try expect(try store.contains(CryptKey<Int>(key: secretToken.key)), "contains with another type")
        },
        ConformanceCheck("a secret that was deleted can be set again") { store in
            try store.set("a", for: secretToken)
            try store.delete(secretToken)
            try store.set("b", for: secretToken)
            try expectEqual(try store.get(secretToken), "b", "get")
        },
        ConformanceCheck("deleting all leaves an empty store") { store in
            try store.set("a", for: secretToken)
            try store.set("b", for: secretRefresh)
            try store.deleteAll()
            try expectEqual(try store.get(secretToken), nil, "get")
            try expect(try !store.contains(secretRefresh), "contains")
        },
        ConformanceCheck("deleting all from an empty store succeeds, also repeatedly") { store in
            try store.deleteAll()
            try store.set("a", for: secretToken)
            try store.deleteAll()
            try store.deleteAll()
            try expectEqual(try store.get(secretToken), nil, "get")
        },
        ConformanceCheck("values can be set in an emptied store") { store in
            try store.set("a", for: secretToken)
            try store.deleteAll()
            try store.set("b", for: secretRefresh)
            try expectEqual(try store.get(secretRefresh), "b", "get")
            try expectEqual(try store.get(secretToken), nil, "get of the one before")
        },
        ConformanceCheck("the name alone identifies a secret, not the accessibility") { store in
            try store.set("a", for: CryptKey<String>(key: "k", accessibility: .afterFirstUnlock))
            let other = CryptKey<String>(key: "k", accessibility: .whenUnlockedThisDeviceOnly)
            try expectEqual(try store.get(other), "a", "get with another accessibility")
            try store.set("b", for: other)
            try expectEqual(try store.get(CryptKey<String>(key: "k")), "b", "get after setting with another")
            try store.delete(CryptKey<String>(key: "k"))
            try expect(try !store.contains(other), "contains after delete")
        },
        ConformanceCheck("every accessibility is accepted") { store in
            for accessibility in CryptAccessibility.allCases {
                let key = CryptKey<String>(key: accessibility.rawValue, accessibility: accessibility)
                try store.set(accessibility.rawValue, for: key)
                try expectEqual(try store.get(key), accessibility.rawValue, "get of \(accessibility)")
            }
        },
    ]

    @discardableResult
    static func expectSecretError<Result>(
        _ code: CryptError.Code, _ what: String, file: StaticString = #fileID, line: UInt = #line,
        _ body: () throws -> Result
    ) async throws -> CryptError {
        let error = try await expectError(CryptError.self, "\(what): \(code)", file: file, line: line) { try body() }
        try expectEqual(error.code, code, "\(what): the code of \(error)", file: file, line: line)
        return error
    }
}
