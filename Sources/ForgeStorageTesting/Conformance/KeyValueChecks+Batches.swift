import ForgeFileSystem
import ForgeKVStore

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
            }
            try expectEqual(store.get(a), 2, "a")
            try expect(!store.contains(b), "b is still there")
            try expectEqual(store.get(c), "two", "c")
        },
        ConformanceCheck("revisions in a batch increase in order") { store in
            try store.set(KVKey<Int>("z"), value: 1)
            let before = try revision(of: "z", in: store)
            try store.batch { batch in for name in ["c", "a", "b"] { try batch.set(KVKey<Int>(name), value: 1) } }
            let found = try [before] + ["c", "a", "b"].map { try revision(of: $0, in: store) }
            try expect(zip(found, found.dropFirst()).allSatisfy(<), "revisions \(found)")
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
            try expectEqual(store.get(KVKey<Int>("a")), 1, "a")
            try expect(!store.contains(KVKey<Int>("c")), "half of the batch was applied")
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
            try expect(!store.contains(KVKey<Int>("a")), "half of the batch was applied")
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
        ConformanceCheck("a snapshot contains a whole batch or nothing of it") {
            store in
            let (a, b) = (KVKey<Int>("a"), KVKey<Int>("b"))
            try store.batch { batch in
                try batch.set(a, value: 1000)
                try batch.set(b, value: 0)
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for moved in 1...300 {
                        try store.batch { batch in
                            try batch.set(a, value: 1000 - moved)
                            try batch.set(b, value: moved)
                        }
                    }
                }
                for _ in 0..<2 {
                    group.addTask {
                        var last = 0
                        for _ in 0..<300 {
                            let snapshot = try store.snapshot()
                            let moved = try snapshot.read(b) ?? -1
                            try expectEqual(try (snapshot.read(a) ?? -1) + moved, 1000, "the sum")
                            try expect(moved >= last, "a later snapshot shows an earlier moment")
                            last = moved
                        }
                    }
                }
                try await group.waitForAll()
            }
        },
    ]
}
