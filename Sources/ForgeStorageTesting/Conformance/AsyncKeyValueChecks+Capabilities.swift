import ForgeKVStore

extension ConformanceChecks {
    static let asyncCapabilities: [ConformanceCheck<AsyncKVStoreUnderTest>] = [
        ConformanceCheck("a value becomes absent after its time to live, as exactly as declared, or is refused") {
            subject in
            let (store, key) = (subject.store, KVKey<Int>("a"))
            var timeToLive = Duration.seconds(2)
            guard let expiry = try await store.capabilities().expiry else {
                let error = try await expectError(KVStoreError.self, "set") {
                    try await store.set(key, value: 1, timeToLive: timeToLive)
                }
                try expectEqual(error.code, .refused, "code")
                return try await expectAbsent("a", in: store)
            }
            while true {
                let start = ContinuousClock.now
                try await store.set(key, value: 1, timeToLive: timeToLive)
                try await store.set(KVKey<Int>("kept"), value: 1, timeToLive: timeToLive)
                try await store.set(KVKey<Int>("kept"), value: 2)
                try await subject.pass(timeToLive / 2)
                let value = try await store.read(key)
                // A busy machine may have let the whole time pass: once more with a longer one.
                guard value == nil, ContinuousClock.now - start >= timeToLive, timeToLive < .seconds(60) else {
                    try expectEqual(value, 1, "the value before its end")
                    break
                }
                timeToLive *= 2
            }
            try await subject.pass(timeToLive / 2 + expiry)
            try await expectAbsent("a", in: store)
            try await expectEqual(store.keys(), ["kept"], "keys")
            try await expectEqual(store.read(KVKey<Int>("kept")), 2, "the value that was set again without an end")
        },
        ConformanceCheck("every value that a batch sets has its time to live, and the last set of a name decides") {
            subject in
            let store = subject.store
            guard let expiry = try await store.capabilities().expiry else { return }
            let timeToLive = Duration.seconds(2)
            let names = ["a", "b", "c"]
            try await store.set(KVKey<Int>("longer"), value: 1, timeToLive: timeToLive)
            try await store.set(KVKey<Int>("longer"), value: 2, timeToLive: timeToLive * 30)
            try await store.set(KVKey<Int>("removed"), value: 1)
            var batch = KVBatch()
            for name in names { try batch.set(KVKey<Int>(name), value: 1) }
            batch.remove(KVKey<Int>("removed"))
            try await store.commit(batch, timeToLive: timeToLive)
            try await expectAbsent("removed", in: subject.store)
            try await subject.pass(timeToLive + expiry)
            try await expectEqual(
                store.keys(), ["longer"], "keys() after the time to live of a batch of \(names)")
            try await expectEqual(
                store.read(KVKey<Int>("longer")), 2, "read(longer) before the end of its second time to live")
        },
        ConformanceCheck("a read sees every write that another client has made, if that is declared") { subject in
            guard try await subject.store.capabilities().readConsistency == .linearizable else { return }
            for index in 0..<20 {
                try await subject.store.set(KVKey<Int>("a"), value: index)
                try await expectEqual(subject.other.read(KVKey<Int>("a")), index, "read by another client")
            }
        },
        ConformanceCheck("acknowledged writes and their revisions survive what is declared") { subject in
            let declared = try await subject.store.capabilities().durability
            guard declared > .memory else { return }
            guard let reopen = subject.reopen else {
                throw ConformanceViolation("declares \(declared), but cannot be reopened")
            }
            try await subject.store.set(KVKey<Int>("a"), value: 1)
            try await subject.store.set(KVKey<Int>("b"), value: 1)
            try await subject.store.remove(KVKey<Int>("b"))
            let revision = try await subject.store.entry(named: "a")?.revision ?? 0
            let store = try await reopen()
            try await expectEqual(store.read(KVKey<Int>("a")), 1, "a")
            try await expectEqual(store.entry(named: "a")?.revision, revision, "the revision")
            try await expectAbsent("b", in: store)
            try await store.set(KVKey<Int>("c"), value: 1)
            let later = try await store.entry(named: "c")?.revision ?? 0
            try expect(later > revision, "revision \(later) after \(revision)")
        },
    ]
}
