import ForgeKVStore

extension ConformanceChecks {
    /// The promises of an asynchronous store, and of its declared capabilities: a store that declares what it does not
    /// do, or does not refuse what it declares not to do, breaks one. Each check needs a new, empty store.
    public static let asyncKeyValueStore: [ConformanceCheck<AsyncKVStoreUnderTest>] =
        asyncValues.map { check in check.on { $0.store } } + asyncBatches.map { check in check.on { $0.store } }
        + asyncChanges.map { check in check.on { $0.store } } + asyncCapabilities

    static let asyncValues: [ConformanceCheck<any AsyncKVStoring>] = [
        ConformanceCheck("an absent key reads as nil") { store in
            try await expectAbsent("a", in: store)
            try await expectEqual(store.contains(KVKey<Int>("a")), false, "contains")
        },
        ConformanceCheck("a value that was set can be read") { store in
            try await store.set(KVKey<String>("a"), value: "one")
            try await store.set(KVKey<Int?>("nil"), value: nil)
            try await expectEqual(store.read(KVKey<String>("a")), "one", "read")
            try await expectEqual(store.get(KVKey<String>("a")), "one", "get")
            try await expect(store.read(KVKey<Int?>("nil")) == .some(.none), "a stored nil is absent")
        },
        ConformanceCheck("setting again replaces the value") { store in
            let key = KVKey<Int>("a")
            for value in [1, 2, 3] { try await store.set(key, value: value) }
            try await expectEqual(store.read(key), 3, "read")
        },
        ConformanceCheck("a removed key is absent, and removing it again succeeds") { store in
            let key = KVKey<Int>("a")
            try await store.set(key, value: 1)
            try await store.set(KVKey<Int>("b"), value: 2)
            for _ in 0..<2 {
                try await store.remove(key)
                try await expectAbsent("a", in: store)
            }
            try await expectEqual(store.read(KVKey<Int>("b")), 2, "the other key")
        },
        ConformanceCheck("removing a name keeps names that begin with it, in either case") { store in
            for name in ["a", "a2", "a/b", "A", "aa"] { try await store.set(KVKey<Int>(name), value: 1) }
            try await store.remove(KVKey<Int>("a"))
            try await expectEqual(store.keys(), ["A", "a/b", "a2", "aa"], "keys() after remove(a)")
        },
        ConformanceCheck("a value of another type is undecodable and is kept") { store in
            try await store.set(KVKey<String>("a"), value: "one")
            let error = try await expectError(KVStoreError.self, "read") { try await store.read(KVKey<Int>("a")) }
            try expectEqual(error.code, .undecodable, "code")
            try expectEqual(error.key, "a", "key")
            try await expectEqual(store.get(KVKey<Int>("a")), nil, "get")
            try await expectEqual(store.read(KVKey<String>("a")), "one", "read")
        },
        ConformanceCheck("every text is a distinct name") { store in
            for (index, name) in hostileNames.enumerated() { try await store.set(KVKey<Int>(name), value: index) }
            for (index, name) in hostileNames.enumerated() {
                try await expectEqual(store.read(KVKey<Int>(name)), index, "the value of \(KVKey<Int>(name))")
            }
        },
        ConformanceCheck("a name longer than 1,024 bytes is refused and changes nothing") { store in
            let key = KVKey<Int>(String(repeating: "é", count: 513))
            let calls: [(String, () async throws -> Void)] = [
                ("set", { try await store.set(key, value: 1) }), ("read", { _ = try await store.read(key) }),
                ("remove", { try await store.remove(key) }),
            ]
            for (call, body) in calls {
                let error = try await expectError(KVStoreError.self, "\(call) with 1,026 bytes", body)
                try expectEqual(error.code, .invalidKey, "the code of \(call) with a name of 1,026 bytes")
            }
            try await expectEqual(store.keys(), [], "keys")
        },
        ConformanceCheck("revisions increase with every acknowledged write") { store in
            var last: UInt64 = 0
            for (index, name) in ["a", "b", "a", "a"].enumerated() {
                try await store.set(KVKey<Int>(name), value: index)
                let revision = try await store.entry(named: name)?.revision ?? 0
                try expect(revision > last, "revision \(revision) after \(last)")
                last = revision
            }
            try await expectEqual(store.entry(named: "a")?.revision, last, "the revision after reading")
        },
        ConformanceCheck("names are listed once, in pages, in the order of their bytes") { store in
            let names = ["p", "p/", "p/a", "p/b", "p/e\u{301}", "p/z", "p/\u{E9}", "p/\u{10FFFF}"]
            for name in ["o", "q"] + names.reversed() { try await store.set(KVKey<Int>(name), value: 1) }
            for limit in [1, 3, 100] {
                var found: [String] = []
                var hasMore = true
                while hasMore, found.count <= names.count {
                    let page = try await store.keys(prefix: "p", after: found.last, limit: limit)
                    try expect(page.names.count <= limit, "\(page.names.count) names in a page of \(limit)")
                    try expect(!page.names.isEmpty || !page.hasMore, "an empty page before the last")
                    found += page.names
                    hasMore = page.hasMore
                }
                try expectEqual(found.map { Array($0.utf8) }, names.map { Array($0.utf8) }, "the names")
            }
        },
        ConformanceCheck("a page follows a name that was removed, and a limit below 1 counts as 1") { store in
            for name in ["a", "b", "c", "d"] { try await store.set(KVKey<Int>(name), value: 1) }
            try await store.remove(KVKey<Int>("b"))
            for limit in [-1, 0, 1] {
                let names = try await store.keys(prefix: "", after: "b", limit: limit)
                try expectEqual(names.names, ["c"], "keys(prefix: \"\", after: b, limit: \(limit)) where b was removed")
                try expect(names.hasMore, "keys(prefix: \"\", after: b, limit: \(limit)): no more, but d follows")
                let values = try await store.entries(prefix: "", after: "b", limit: limit, at: nil)
                try expectEqual(
                    values.entries.map(\.name), ["c"], "entries(prefix: \"\", after: b, limit: \(limit), at: nil)")
            }
            let last = try await store.keys(prefix: "", after: "d", limit: 1)
            try expectEqual(last.names, [], "keys(prefix: \"\", after: d, limit: 1), after the last name")
        },
        ConformanceCheck("values are listed once, in pages, in the order of the bytes of their names") { store in
            let names = ["p", "p/", "p/a", "p/b", "p/e\u{301}", "p/z", "p/\u{E9}", "p/\u{10FFFF}"]
            for name in ["o", "q"] + names.reversed() { try await store.set(KVKey<Int>(name), value: 1) }
            for limit in [1, 3, 100] {
                var page = try await store.entries(prefix: "p", after: nil, limit: limit, at: nil)
                let first = page
                var found = page.entries
                while page.hasMore, let last = page.entries.last, found.count <= names.count {
                    page = try await store.entries(prefix: "p", after: last.name, limit: limit, at: first.revision)
                    try expectEqual(page.storeID, first.storeID, "the identity")
                    found += page.entries
                    try expect(page.entries.count <= limit, "\(page.entries.count) values in a page of \(limit)")
                }
                try expectEqual(found.map { Array($0.name.utf8) }, names.map { Array($0.utf8) }, "the names")
                for (name, entry) in found {
                    try await expectEqual(store.entry(named: name), entry, "the value of \(KVKey<Int>(name))")
                    try expect(entry.revision <= first.revision ?? .max, "a value is newer than its page")
                }
            }
        },
        ConformanceCheck("the revision that a batch returns, if any, is that of its values") { store in
            var batch = KVBatch()
            try batch.set(KVKey<Int>("a"), value: 1)
            let revision = try await store.commit(batch, timeToLive: nil)
            guard let revision else { return }
            try await expectEqual(store.entry(named: "a")?.revision, revision, "the revision of the value")
            var removal = KVBatch()
            removal.remove(KVKey<Int>("a"))
            let removed = try await store.commit(removal, timeToLive: nil) ?? 0
            try expect(removed > revision, "the removal has revision \(removed) after \(revision)")
        },
        ConformanceCheck("a cancelled call changes nothing") { store in
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                try await store.set(KVKey<Int>("a"), value: 1)
            }
            let error = try await expectError(KVStoreError.self, "set") { try await task.value }
            try expectEqual(error.code, .cancelled, "code")
            try await expectAbsent("a", in: store)
        },
    ]

    static func expectAbsent(
        _ name: String, in store: any AsyncKVStoring, file: StaticString = #fileID, line: UInt = #line
    ) async throws {
        let entry = try await store.entry(named: name)
        try expectEqual(entry, nil, "entry(named: \(name.debugDescription))", file: file, line: line)
    }
}
