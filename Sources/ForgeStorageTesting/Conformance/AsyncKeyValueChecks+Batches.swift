import ForgeKVStore

extension ConformanceChecks {
    static let asyncBatches: [ConformanceCheck<any AsyncKVStoring>] = [
        ConformanceCheck("a write with a requirement is applied only if it holds") { store in
            let key = KVKey<Int>("a")
            try await expect(store.createIfAbsent(key, value: 1), "a key was not created")
            try await expect(!store.createIfAbsent(key, value: 2), "a key was created twice")
            let revision = try await store.entry(named: "a")?.revision ?? 0
            try await expect(!store.compareAndSet(key, revision: revision + 1, value: 3), "a wrong revision matched")
            try await expectEqual(store.read(key), 1, "the value after calls that do not apply")
            try await expect(store.compareAndSet(key, revision: revision, value: 4), "the revision did not match")
            try await expect(!store.compareAndSet(key, revision: revision, value: 5), "an old revision matched")
            try await expectEqual(store.read(key), 4, "the value")
        },
        ConformanceCheck("exactly one of 8 concurrent creations succeeds") { store in
            let successes = try await withThrowingTaskGroup(of: Bool.self) { group in
                for index in 0..<8 { group.addTask { try await store.createIfAbsent(KVKey<Int>("a"), value: index) } }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            try expectEqual(successes, 1, "successes")
        },
        ConformanceCheck("no concurrent update is lost") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        for _ in 0..<10 { try await store.update(KVKey<Int>("a"), default: 0) { $0 += 1 } }
                    }
                }
                try await group.waitForAll()
            }
            try await expectEqual(store.read(KVKey<Int>("a")), 40, "the number of updates")
        },
        ConformanceCheck("a batch is applied whole, or not at all if a requirement does not hold") { store in
            let (a, b) = (KVKey<Int>("a"), KVKey<Int>("b"))
            try await store.set(a, value: 1)
            let revision = try await store.entry(named: "a")?.revision
            let error = try await expectError(KVStoreError.self, "commit") {
                try await store.batch { batch in
                    batch.require(a, revision: revision)
                    batch.require(b, revision: 1)
                    batch.remove(a)
                    try batch.set(b, value: 2)
                }
            }
            try expectEqual(error.code, .conflict, "code")
            try await expectEqual(store.read(a), 1, "a")
            try await expectAbsent("b", in: store)
            try await store.batch { batch in
                batch.require(a, revision: revision)
                batch.require(b, revision: nil)
                batch.remove(a)
                try batch.set(b, value: 2)
            }
            try await expectAbsent("a", in: store)
            try await expectEqual(store.read(b), 2, "b")
        },
        ConformanceCheck("every requirement of a batch counts, whichever of them does not hold") { store in
            var valid: [(name: String, revision: UInt64?)] = []
            for name in ["a", "b"] {
                try await store.set(KVKey<Int>(name), value: 1)
                valid.append((name, try await store.entry(named: name)?.revision))
            }
            valid.append(("absent", nil))
            for index in valid.indices {
                let revision = valid[index].revision
                for wrong in [revision.map { $0 - 1 }, revision.map { $0 + 1 }, nil, 1] where wrong != revision {
                    var requirements = valid
                    requirements[index].revision = wrong
                    let error = try await expectError(KVStoreError.self, "commit with \(requirements)") {
                        try await store.batch { batch in
                            for (name, revision) in requirements { batch.require(name, revision: revision) }
                            try batch.set(KVKey<Int>("d"), value: 2)
                        }
                    }
                    try expectEqual(error.code, .conflict, "the code of commit with \(requirements)")
                    try await expectAbsent("d", in: store)
                }
            }
            try await store.batch { batch in
                for (name, revision) in valid { batch.require(name, revision: revision) }
                try batch.set(KVKey<Int>("d"), value: 2)
            }
            try await expectEqual(store.read(KVKey<Int>("d")), 2, "read(d) after commit with \(valid)")
        },
        ConformanceCheck("no revision from before a removal matches again") { store in
            let key = KVKey<Int>("a")
            var old: [UInt64] = []
            for value in 1...2 {
                try await store.set(key, value: value)
                old.append(try await store.entry(named: "a")?.revision ?? 0)
            }
            try await store.remove(key)
            for value in 3...4 {
                try await store.set(key, value: value)
                let present = try await store.entry(named: "a")?.revision ?? 0
                try expect(old.allSatisfy { $0 < present }, "set after remove has revision \(present), after \(old)")
                for revision in old {
                    let isSet = try await store.compareAndSet(key, revision: revision, value: 5)
                    try expect(!isSet, "compareAndSet(a, revision: \(revision)) is true after remove and a new set")
                }
                old.append(present)
            }
        },
        ConformanceCheck("of several changes of one name in a batch the last takes effect") { store in
            let (a, b) = (KVKey<Int>("a"), KVKey<Int>("b"))
            try await store.batch { batch in
                try batch.set(a, value: 1)
                try batch.set(b, value: 1)
                batch.remove(a)
                batch.remove(b)
                try batch.set(a, value: 2)
            }
            try await expectEqual(store.read(a), 2, "a")
            try await expectAbsent("b", in: store)
            try await store.batch { _ in }
        },
        ConformanceCheck("a batch of the declared size is applied, and a larger one is too large") { store in
            let declared = try await store.capabilities().maximumBatchSize
            try await store.batch { batch in
                for index in 0..<(declared ?? 1000) { try batch.set(KVKey<Int>("k\(index)"), value: index) }
            }
            try await expectEqual(store.keys().count, declared ?? 1000, "the number of names")
            guard let declared else { return }
            let error = try await expectError(KVStoreError.self, "commit") {
                try await store.batch { batch in
                    for index in 0...declared { try batch.set(KVKey<Int>("l\(index)"), value: index) }
                }
            }
            try expectEqual(error.code, .tooLarge, "code")
            try await expectEqual(store.keys(prefix: "l"), [], "names of the batch that is too large")
        },
    ]
}
