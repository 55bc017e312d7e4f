import ForgeFileSystem
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
            // A store may encode a value for each of these calls anew.
            for sample in TypeSample.all {
                try sample.set(store, sample.name)
                let entry = try store.entry(named: sample.name)
                try expectEqual(
                    entry?.bytes, try store.rawValue(named: sample.name), "the bytes of entry(named: \(sample.name))")
                try expectEqual(try store.snapshot()[sample.name], entry, "snapshot()[\(sample.name)]")
            }
        },
        ConformanceCheck("revisions increase with every write of any key") {
            store in
            var last: UInt64 = 0
            // A removal counts too, although no value has its number.
            let writes: [(name: String, count: UInt64, write: () throws -> Void)] = [
                ("a", 1, { try store.set(KVKey<Int>("a"), value: 1) }),
                ("b", 1, { try store.set(KVKey<Int>("b"), value: 1) }),
                ("a", 1, { try store.set(KVKey<Int>("a"), value: 1) }),
                ("c", 1, { try store.setRawValue(try store.rawValue(named: "a") ?? [], named: "c") }),
                (
                    "a", 2,
                    {
                        try store.removeValue(named: "a"); try store.set(KVKey<Int>("a"), value: 1)
                    }
                ),
                ("d", 1, { try store.batch { try $0.set(KVKey<Int>("d"), value: 1) } }),
                (
                    "b", 2,
                    {
                        try store.removeAll(); try store.set(KVKey<Int>("b"), value: 2)
                    }
                ),
            ]
            for (index, (name, count, write)) in writes.enumerated() {
                try write()
                let revision = try revision(of: name, in: store)
                try expect(
                    revision >= last + count,
                    "write \(index) has revision \(revision), the one before \(last): expected \(count) more, or later")
                last = revision
            }
        },
        ConformanceCheck("reading does not change revisions") { store in
            try store.set(KVKey<CheckProfile>("a"), value: CheckProfile())
            let entry = try store.entry(named: "a")
            _ = store.get(KVKey<CheckProfile>("a"))
            _ = store.get(KVKey<Int>("a"))
            try expectEqual(try store.entry(named: "a"), entry, "entry(named: a) after get(a) as two types")
        },
        ConformanceCheck("entry refuses a name that is too long") { store in
            let name = String(repeating: "x", count: 1025)
            let error = try await expectError(KVStoreError.self, "entry") { try store.entry(named: name) }
            try expectEqual(error.code, .invalidKey, "code")
            try expectEqual(error.operation, .read, "operation")
            try expectEqual(error.key, name, "key")
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
            try expectEqual(store.contains(key), false, "contains(a) after remove(a) and a refused compareAndSet")
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
            let call = "createIfAbsent(c) of a value that cannot be encoded"
            let error = try await expectError(KVStoreError.self, call) {
                try store.createIfAbsent(KVKey<CheckUnencodable>("c"), value: CheckUnencodable())
            }
            try expectEqual(error.code, .unencodable, "the code of \(call)")
            try expectEqual(error.operation, .set, "the operation of \(call)")
            try expectEqual(error.key, "c", "the key of \(call)")
            try expect(!store.contains(KVKey<Int>("c")), "contains(c) after \(call): expected false")
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
        ConformanceCheck("updateIfPresent and removeIfPresent change a present key, and only that") { store in
            let key = KVKey<[Int]>("a")
            try expectEqual(try store.updateIfPresent(key) { $0.append(1) }, nil, "updateIfPresent(a) of an absent key")
            try expect(try !store.removeIfPresent(key), "removeIfPresent(a) of an absent key is true")
            try expect(!store.contains(key), "contains(a) is true, where nothing was set")
            try store.set(key, value: [0])
            try expectEqual(try store.updateIfPresent(key) { $0.append(1) }, [0, 1], "updateIfPresent(a)")
            try expectEqual(store.get(key), [0, 1], "get(a) after updateIfPresent(a)")
            try expect(try store.removeIfPresent(key), "removeIfPresent(a) is false, where there is a value")
            try expect(!store.contains(key), "contains(a) is true after removeIfPresent(a)")
            try expect(try !store.removeIfPresent(key), "the second removeIfPresent(a) is true")
        },
    ]
}

extension ConformanceChecks {
    static let keyValueBatches: [ConformanceCheck<any KVTransactionalStoring>] = [
        ConformanceCheck("a batch applies its changes in order") { store in
            let (a, b, c) = (KVKey<Int>("a"), KVKey<Int>("b"), KVKey<String>("c"))
            try store.set(b, value: 1)
            try store.batch { batch in
                try batch.set(a, value: 1)
                batch.remove(a)
                try batch.set(a, value: 2)
                batch.remove(b)
                batch.remove(KVKey<Int>("never there"))
                try batch.set(c, value: "one")
                try batch.set(c, value: "two")
                for name in ["", "d"] { batch.append(.set(name: name, bytes: [])) }
            }
            try expectEqual(store.get(a), 2, "a")
            try expect(!store.contains(b), "b is still there")
            try expectEqual(store.get(c), "two", "c")
            for name in ["", "d"] {
                let call = "rawValue(named: \(name.escaped)) after a batch that sets it to no bytes"
                try expectEqual(try store.rawValue(named: name), [], call)
            }
        },
        ConformanceCheck("revisions in a batch increase in order") { store in
            try store.set(KVKey<Int>("z"), value: 1)
            let before = try revision(of: "z", in: store)
            try store.batch { batch in for name in ["c", "a", "b"] { try batch.set(KVKey<Int>(name), value: 1) } }
            let found = try [before] + ["c", "a", "b"].map { try revision(of: $0, in: store) }
            try expect(
                zip(found, found.dropFirst()).allSatisfy(<),
                "revisions \(found): expected each to be greater than the one before")
        },
        ConformanceCheck("a batch without changes does nothing") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.batch { _ in }
            try expectEqual(store.get(KVKey<Int>("a")), 1, "a")
        },
        ConformanceCheck(
            "a batch whose requirement does not hold is a conflict and changes nothing"
        ) {
            store in
            try store.set(KVKey<Int>("a"), value: 1)
            let present = try revision(of: "a", in: store)
            let wrong: [(String, UInt64?)] = [("a", nil), ("a", present + 1), ("b", present)]
            for (name, revision) in wrong {
                let error = try await expectError(KVStoreError.self, "commit") {
                    try store.batch { batch in
                        try batch.set(KVKey<Int>("a"), value: 2)
                        try batch.set(KVKey<Int>("c"), value: 2)
                        batch.require(name, revision: revision)
                    }
                }
                try expectEqual(error.code, .conflict, "code")
                try expectEqual(error.key, name, "key")
            }
            try expectEqual(store.get(KVKey<Int>("a")), 1, "get(a) after the refused batches")
            try expectEqual(store.contains(KVKey<Int>("c")), false, "contains(c) after the refused batches that set it")
            try store.batch { batch in
                batch.require("a", revision: present)
                batch.require("b", revision: nil)
                try batch.set(KVKey<Int>("c"), value: 2)
            }
            try expectEqual(store.get(KVKey<Int>("c")), 2, "c")
        },
        ConformanceCheck("every requirement of a batch counts, whichever of them does not hold") { store in
            for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
            var valid: [(name: String, revision: UInt64?)] = []
            for name in ["a", "b", "c"] { valid.append((name, try revision(of: name, in: store))) }
            valid.append(("absent", nil))
            for index in valid.indices {
                let revision = valid[index].revision
                for wrong in [revision.map { $0 - 1 }, revision.map { $0 + 1 }, nil, 1, .max] where wrong != revision {
                    var requirements = valid
                    requirements[index].revision = wrong
                    let error = try await expectError(KVStoreError.self, "commit with \(requirements)") {
                        try store.batch { batch in
                            for (name, revision) in requirements { batch.require(name, revision: revision) }
                            try batch.set(KVKey<Int>("d"), value: 2)
                        }
                    }
                    try expectEqual(error.code, .conflict, "the code of commit with \(requirements)")
                    try expectEqual(error.key, valid[index].name, "the key of commit with \(requirements)")
                    try expect(!store.contains(KVKey<Int>("d")), "commit with \(requirements) has stored d")
                }
            }
            try store.batch { batch in
                for (name, revision) in valid { batch.require(name, revision: revision) }
                try batch.set(KVKey<Int>("d"), value: 2)
            }
            try expectEqual(store.get(KVKey<Int>("d")), 2, "get(d) after commit with \(valid)")
        },
        ConformanceCheck("a removal in a batch removes one name, and what the batch has set before") { store in
            let names = ["a", "a2", "a/b", "A", "b"]
            for name in names { try store.set(KVKey<Int>(name), value: 1) }
            try store.batch { batch in
                batch.remove(KVKey<Int>("a"))
                try batch.set(KVKey<Int>("b"), value: 2)
                batch.remove(KVKey<Int>("b"))
            }
            try expectEqual(Set(try store.keys()), ["a2", "a/b", "A"], "keys() after removing a and b in a batch")
        },
        ConformanceCheck("of two requirements of one name both count") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            let present = try revision(of: "a", in: store)
            for revisions in [[present, present + 1], [present + 1, present]] {
                let error = try await expectError(KVStoreError.self, "commit that requires \(revisions) of a") {
                    try store.batch { batch in
                        for revision in revisions { batch.require("a", revision: revision) }
                        try batch.set(KVKey<Int>("b"), value: 1)
                    }
                }
                try expectEqual(error.code, .conflict, "the code of commit that requires \(revisions) of a")
                try expect(!store.contains(KVKey<Int>("b")), "commit that requires \(revisions) of a has stored b")
            }
        },
        ConformanceCheck("requirements are checked even without changes") { store in
            try store.batch { $0.require("a", revision: nil) }
            let error = try await expectError(KVStoreError.self, "commit") {
                try store.batch { $0.require("a", revision: 1) }
            }
            try expectEqual(error.code, .conflict, "code")
        },
        ConformanceCheck("a batch with a name that is too long changes nothing") { store in
            let error = try await expectError(KVStoreError.self, "commit") {
                try store.batch { batch in
                    try batch.set(KVKey<Int>("a"), value: 1)
                    try batch.set(KVKey<Int>(String(repeating: "x", count: 1025)), value: 1)
                }
            }
            try expectEqual(error.code, .invalidKey, "code")
            try expectEqual(store.contains(KVKey<Int>("a")), false, "contains(a) after the refused batch that set it")
        },
        ConformanceCheck("an error of a batch has the operation batch and the name that it concerns") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            let long = String(repeating: "x", count: 1025)
            let batches: [(call: String, key: String, code: KVStoreError.Code, make: (inout KVBatch) -> Void)] = [
                ("that requires a to be absent", "a", .conflict, { $0.require("a", revision: nil) }),
                ("that sets 1,025 bytes", long, .invalidKey, { $0.append(.set(name: long, bytes: [1])) }),
                ("that removes 1,025 bytes", long, .invalidKey, { $0.append(.remove(name: long)) }),
                ("that requires 1,025 bytes", long, .invalidKey, { $0.require(long, revision: nil) }),
                (
                    "that requires a to be absent and sets 1,025 bytes", long, .invalidKey,
                    {
                        $0.require("a", revision: nil)
                        $0.append(.set(name: long, bytes: [1]))
                    }
                ),
            ]
            for (call, key, code, make) in batches {
                var batch = KVBatch()
                make(&batch)
                let error = try await expectError(KVStoreError.self, "commit of a batch \(call)") {
                    try store.commit(batch)
                }
                try expectEqual(error.code, code, "the code of a batch \(call)")
                try expectEqual(error.operation, .batch, "the operation of a batch \(call)")
                try expectEqual(error.key, key, "the key of a batch \(call)")
            }
        },
        ConformanceCheck("making writes durable does not change them") { store in
            let key = KVKey<Int>("a")
            try store.synchronize()
            try store.set(key, value: 1)
            try store.synchronize()
            try expectEqual(store.get(key), 1, "get")
            try store.set(key, value: 2, durability: .full)
            try expectEqual(store.get(key), 2, "get")
        },
    ]

    static let keyValueSnapshots: [ConformanceCheck<any KVTransactionalStoring>] = [
        ConformanceCheck("a snapshot contains every name with its entry") { store in
            try expect(try store.snapshot().isEmpty, "a snapshot of an empty store is not empty")
            for (index, name) in hostileNames.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            let snapshot = try store.snapshot()
            try expectEqual(snapshot.count, hostileNames.count, "how many names there are")
            for (index, name) in hostileNames.enumerated() {
                try expect(try snapshot[name] == store.entry(named: name), "another entry of \(KVKey<Int>(name))")
                try expectEqual(try snapshot.read(KVKey<Int>(name)), index, "the value of \(KVKey<Int>(name))")
            }
            try expect(snapshot["never there"] == nil, "an absent name has an entry")
            for found in [snapshot.names, snapshot.map(\.name)] {
                try expectEqual(found.count, hostileNames.count, "how many names a snapshot lists")
                try expectEqual(
                    Set(found.map { Array($0.utf8) }).count, found.count, "how many different names a snapshot lists")
            }
        },
        ConformanceCheck("a snapshot contains values of every size, also once they are replaced") { store in
            let sizes = [0, 1, 15, 16, 255, 256, 1023, 1024, 1025, 4096, 70_000]
            func bytes(_ size: Int, _ round: Int) -> [UInt8] {
                [UInt8](repeating: UInt8(size % 251 + round), count: size)
            }
            for size in sizes { try store.setRawValue(bytes(size, 0), named: "size \(size)") }
            let snapshot = try store.snapshot()
            for size in sizes { try store.setRawValue(bytes(size, 1), named: "size \(size)") }
            for (round, snapshot) in [snapshot, try store.snapshot()].enumerated() {
                try expectEqual(snapshot.count, sizes.count, "the number of names in a snapshot")
                for size in sizes {
                    let found = snapshot["size \(size)"]?.bytes
                    try expect(
                        found == bytes(size, round),
                        "snapshot()[\"size \(size)\"] of write \(round): expected \(size) equal bytes, got \(found?.count ?? -1)"
                    )
                }
            }
            // Together more than a store may copy into one piece of memory.
            let many = (0..<1_100).map { "\($0)" }
            try store.batch { batch in for name in many { batch.append(.set(name: name, bytes: bytes(1_000, 2))) } }
            let large = try store.snapshot()
            for name in many {
                let found = large[name]?.bytes.count
                try expect(
                    found == 1_000,
                    "snapshot()[\"\(name)\"] of \(many.count) values of 1,000 bytes: got \(found ?? -1) bytes")
            }
        },
        ConformanceCheck("a snapshot omits removed names") { store in
            for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
            try store.remove(KVKey<Int>("b"))
            let snapshot = try store.snapshot()
            try expect(snapshot["b"] == nil, "a snapshot has an entry of b, which was removed")
            try expectEqual(snapshot.count, 2, "the number of names in a snapshot after one of three was removed")
        },
        ConformanceCheck("a snapshot is unaffected by later writes") { store in
            let (a, b) = (KVKey<String>("a"), KVKey<String>("b"))
            try store.set(a, value: "one")
            let snapshot = try store.snapshot()
            try store.set(a, value: "two")
            try store.set(b, value: "two")
            try expectEqual(try snapshot.read(a), "one", "a")
            try expect(try snapshot.read(b) == nil, "b is in a snapshot from before")
            try store.removeAll()
            try expectEqual(try snapshot.read(a), "one", "a")
        },
    ]
}
