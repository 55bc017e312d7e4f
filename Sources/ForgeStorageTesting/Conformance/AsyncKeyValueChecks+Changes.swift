import ForgeKVStore

extension ConformanceChecks {
    static let asyncChanges: [ConformanceCheck<any AsyncKVStoring>] = [
        ConformanceCheck("changes begin with a resync and lead to the content of the store, or are refused as declared")
        {
            store in
            guard try await store.capabilities().changes != .none else {
                let error = try await expectError(KVStoreError.self, "changes") {
                    for try await _ in store.changes() { break }
                }
                return try expectEqual(error.code, .refused, "code")
            }
            try await store.set(KVKey<Int>("p/old"), value: 1)
            try await store.set(KVKey<Int>("p/kept"), value: 1)
            var model: [String: Int] = [:]
            var isFirst = true
            for try await change in store.changes(prefix: "p/", from: nil) {
                switch change {
                case .resync:
                    model = [:]
                    for name in try await store.keys(prefix: "p/") { model[name] = await store.get(KVKey<Int>(name)) }
                case .changed(let name, let entry, _): model[name] = try entry?.value(of: KVKey<Int>(name))
                }
                if isFirst {
                    try expectEqual(change, .resync, "the first element")
                    isFirst = false
                    try await store.remove(KVKey<Int>("p/old"))
                    try await store.set(KVKey<Int>("p/a"), value: 1)
                    try await store.set(KVKey<Int>("p/a"), value: 2)
                    try await store.set(KVKey<Int>("p/end"), value: 1)
                }
                if model["p/end"] != nil { break }
            }
            try expectEqual(model, ["p/kept": 1, "p/a": 2, "p/end": 1], "the followed content")
        },
        ConformanceCheck("changes with a prefix are those of its names") { store in
            guard try await store.capabilities().changes != .none else { return }
            var isFirst = true
            for try await change in store.changes(prefix: "p/", from: nil) {
                if isFirst {
                    isFirst = false
                    for name in ["p", "q", "p/end"] { try await store.set(KVKey<Int>(name), value: 1) }
                }
                guard case .changed(let name, _, _) = change else { continue }
                try expect(name.hasPrefix("p/"), "a change of \(name)")
                if name == "p/end" { break }
            }
        },
        ConformanceCheck("changes from a revision are replayed in order, or begin with a resync as declared") { store in
            let declared = try await store.capabilities().changes
            guard declared != .none else { return }
            let (a, b, c) = (KVKey<Int>("a"), KVKey<Int>("b"), KVKey<Int>("c"))
            try await store.set(a, value: 1)
            let revision = try await store.keys(prefix: "", after: nil, limit: 10).revision
            try await store.set(b, value: 2)
            try await store.remove(a)
            try await store.set(c, value: 3)
            var iterator = store.changes(prefix: "", from: revision ?? 1).makeAsyncIterator()
            guard declared == .replayable else {
                return try await expectEqual(iterator.next(), .resync, "the first element")
            }
            try expect(revision != nil, "a page has no revision")
            var revisions: [UInt64?] = []
            for (name, value) in [("b", 2), ("a", nil), ("c", 3)] {
                guard case .changed(let changed, let entry, let revision) = try await iterator.next() else {
                    throw ConformanceViolation("no change of \(name)")
                }
                try expectEqual(changed, name, "the changed name")
                try expectEqual(try entry?.value(of: KVKey<Int>(name)), value, "the value of \(name)")
                revisions.append(revision)
            }
            var later = store.changes(prefix: "", from: revisions[0]).makeAsyncIterator()
            guard case .changed("a", nil, _) = try await later.next() else {
                throw ConformanceViolation("another change after the revision of the first")
            }
        },
    ]
}
