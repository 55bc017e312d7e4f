import ForgeKVStore

extension ConformanceChecks {
    /// The revision of an existing name.
    static func revision(of name: String, in store: any KVTransactionalStoring) throws -> UInt64 {
        guard let entry = try store.entry(named: name) else { throw ConformanceViolation("\(name) has no entry") }
        return entry.revision
    }

    static let keyValueRevisions: [ConformanceCheck<any KVTransactionalStoring>] = [
        ConformanceCheck("an entry is the raw value with a revision") { store in
            try expect(try store.entry(named: "a") == nil, "an absent key has an entry")
            try store.set(KVKey<String>("a"), value: "one")
            try expectEqual(try store.entry(named: "a")?.bytes, try store.rawValue(named: "a"), "bytes")
            try expect(try revision(of: "a", in: store) > 0, "revision 0")
            try store.remove(KVKey<String>("a"))
            try expect(try store.entry(named: "a") == nil, "a removed key has an entry")
        },
        ConformanceCheck("revisions increase with every write of any key") {
            store in
            var last: UInt64 = 0
            let writes: [(String, () throws -> Void)] = [
                ("a", { try store.set(KVKey<Int>("a"), value: 1) }),
                ("b", { try store.set(KVKey<Int>("b"), value: 1) }),
                ("a", { try store.set(KVKey<Int>("a"), value: 1) }),
                ("c", { try store.setRawValue(try store.rawValue(named: "a") ?? [], named: "c") }),
                (
                    "a",
                    {
                        try store.removeValue(named: "a"); try store.set(KVKey<Int>("a"), value: 1)
                    }
                ),
                ("d", { try store.batch { try $0.set(KVKey<Int>("d"), value: 1) } }),
                (
                    "b",
                    {
                        try store.removeAll(); try store.set(KVKey<Int>("b"), value: 2)
                    }
                ),
            ]
            for (index, (name, write)) in writes.enumerated() {
                try write()
                let revision = try revision(of: name, in: store)
                try expect(revision > last, "write \(index) has revision \(revision), the one before \(last)")
                last = revision
            }
        },
        ConformanceCheck("reading does not change revisions") { store in
            try store.set(KVKey<CheckProfile>("a"), value: CheckProfile())
            let entry = try store.entry(named: "a")
            _ = store.get(KVKey<CheckProfile>("a"))
            _ = store.get(KVKey<Int>("a"))
            try expect(try store.entry(named: "a") == entry, "another entry after reading")
        },
        ConformanceCheck("entry refuses a name that is too long") { store in
            let error = try await expectError(KVStoreError.self, "entry") {
                try store.entry(named: String(repeating: "x", count: 1025))
            }
            try expectEqual(error.code, .invalidKey, "code")
        },
        ConformanceCheck(
            "compareAndSet stores only if the revision is the expected one"
        ) {
            store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            let old = try revision(of: "a", in: store)
            try store.set(key, value: 2)
            try expect(try !store.compareAndSet(key, revision: old, value: 3), "an old revision is accepted")
            try expect(try !store.compareAndSet(key, revision: nil, value: 3), "a present key is taken for absent")
            try expectEqual(store.get(key), 2, "get")
            try expect(
                try store.compareAndSet(key, revision: try revision(of: "a", in: store), value: 3),
                "the revision is refused")
            try expectEqual(store.get(key), 3, "get")
            let last = try revision(of: "a", in: store)
            try store.remove(key)
            try expect(
                try !store.compareAndSet(key, revision: last, value: 4), "a removed value still matches")
            try expect(!store.contains(key), "contains is true")
        },
        ConformanceCheck("compareAndSet refuses every revision but the present one") { store in
            let key = KVKey<Int>("a")
            for value in 1...3 { try store.set(key, value: value) }
            let present = try revision(of: "a", in: store)
            for other in [0, 1, present - 1, present + 1, .max] where other != present {
                let isSet = try store.compareAndSet(key, revision: other, value: 4)
                try expect(!isSet, "compareAndSet(a, revision: \(other)) is true, where the revision is \(present)")
                try expectEqual(store.get(key), 3, "get(a) after compareAndSet(a, revision: \(other))")
            }
            for absent in [0, 1, present, present + 1] {
                let isSet = try store.compareAndSet(KVKey<Int>("b"), revision: absent, value: 4)
                try expect(!isSet, "compareAndSet(b, revision: \(absent)) is true, where b is absent")
            }
            try expect(!store.contains(KVKey<Int>("b")), "contains(b) is true")
        },
        ConformanceCheck("no revision from before a removal matches again, whichever call has removed the value") {
            store in
            let key = KVKey<Int>("a")
            let removals: [(String, () throws -> Void)] = [
                ("remove", { try store.remove(key) }), ("removeValue", { try store.removeValue(named: "a") }),
                ("removeAll", { try store.removeAll() }), ("a batch", { try store.batch { $0.remove(key) } }),
            ]
            for (call, remove) in removals {
                var old: [UInt64] = []
                for value in 1...3 {
                    try store.set(key, value: value)
                    old.append(try revision(of: "a", in: store))
                }
                try remove()
                for value in 4...6 {
                    try store.set(key, value: value)
                    let present = try revision(of: "a", in: store)
                    try expect(
                        old.allSatisfy { $0 < present }, "set after \(call) has revision \(present), after \(old)")
                    for revision in old {
                        let isSet = try store.compareAndSet(key, revision: revision, value: 7)
                        try expect(
                            !isSet, "compareAndSet(a, revision: \(revision)) is true after \(call) and a new set")
                    }
                    old.append(present)
                }
                try store.remove(key)
            }
        },
        ConformanceCheck("createIfAbsent creates once, and a stored nil counts as present") { store in
            try expect(try store.createIfAbsent(KVKey<Int>("a"), value: 1), "an absent key is not created")
            try expect(try !store.createIfAbsent(KVKey<Int>("a"), value: 2), "a present key is created")
            try expectEqual(store.get(KVKey<Int>("a")), 1, "get")
            try store.set(KVKey<Int?>("b"), value: nil)
            try expect(try !store.createIfAbsent(KVKey<Int?>("b"), value: 2), "a stored nil is taken for absent")
        },
        ConformanceCheck("versioned returns the value and its revision") { store in
            let key = KVKey<[String]>("a")
            try expect(try store.versioned(key) == nil, "an absent key has a value")
            try store.set(key, value: ["one"])
            let found = try store.versioned(key)
            try expectEqual(found?.value, ["one"], "value")
            try expectEqual(found?.revision, try revision(of: "a", in: store), "revision")
            let error = try await expectError(KVStoreError.self, "versioned") { try store.versioned(KVKey<Int>("a")) }
            try expectEqual(error.code, .undecodable, "code")
        },
        ConformanceCheck("an update starts from the default and returns the stored value") { store in
            let key = KVKey<[Int]>("a")
            try expectEqual(try store.update(key, default: [0]) { $0.append(1) }, [0, 1], "the first update")
            try expectEqual(try store.update(key, default: []) { $0.append(2) }, [0, 1, 2], "the second update")
            try expectEqual(store.get(key), [0, 1, 2], "get")
        },
        ConformanceCheck("none of 1,000 updates by 4 threads is lost") { store in
            let key = KVKey<Int>("a")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask { for _ in 0..<250 { try store.update(key, default: 0) { $0 += 1 } } }
                }
                try await group.waitForAll()
            }
            try expectEqual(store.get(key), 1000, "the sum")
        },
        ConformanceCheck("exactly one of 4 threads that create one key succeeds") { store in
            for round in 0..<20 {
                let key = KVKey<Int>("\(round)")
                let winners = try await withThrowingTaskGroup(of: Int?.self) { group in
                    for writer in 0..<4 {
                        group.addTask { try store.createIfAbsent(key, value: writer) ? writer : nil }
                    }
                    var winners: [Int] = []
                    for try await winner in group { if let winner { winners.append(winner) } }
                    return winners
                }
                try expectEqual(winners.count, 1, "how many have created \(round)")
                try expectEqual(store.get(key), winners.first, "the value of \(round)")
            }
        },
    ]
}
