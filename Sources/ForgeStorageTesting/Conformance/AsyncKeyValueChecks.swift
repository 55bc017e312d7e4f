public import ForgeKVStore

/// A new, empty asynchronous store and what the checks do with it.
public struct AsyncKVStoreUnderTest: Sendable {
    /// The store.
    public var store: any AsyncKVStoring

    /// Another client of the same store.
    public var other: any AsyncKVStoring

    /// Lets time pass: waits, or advances the clock of the store.
    public var pass: @Sendable (Duration) async throws -> Void

    /// Ends all processes of the store, as far as the declared durability goes, and opens it again. Nil if it cannot
    /// be; then it may declare `.memory` alone.
    public var reopen: (@Sendable () async throws -> any AsyncKVStoring)?

    /// Creates a subject.
    public init(
        _ store: any AsyncKVStoring, other: any AsyncKVStoring,
        pass: @escaping @Sendable (Duration) async throws -> Void,
        reopen: (@Sendable () async throws -> any AsyncKVStoring)? = nil
    ) {
        self.store = store
        self.other = other
        self.pass = pass
        self.reopen = reopen
    }
}

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
            var batch = KVBatch()
            batch.append(.set(name: "empty", bytes: []))
            try await store.commit(batch, timeToLive: nil)
            try await expectEqual(store.entry(named: "empty")?.bytes, [], "the bytes of entry(named: empty), no bytes")
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
            let refusal = try await expectError(KVStoreError.self, "set of a value that cannot be encoded") {
                try await store.set(KVKey<CheckUnencodable>("a"), value: CheckUnencodable())
            }
            try expectEqual(refusal.code, .unencodable, "the code of set of a value that cannot be encoded")
            try expectEqual(refusal.operation, .set, "the operation of set of a value that cannot be encoded")
            try expectEqual(refusal.key, "a", "the key of set of a value that cannot be encoded")
            try await expectEqual(store.read(KVKey<String>("a")), "one", "read")
        },
        ConformanceCheck("every text is a distinct name", needs: [.longestNames]) { store in
            for (index, name) in hostileNames.enumerated() { try await store.set(KVKey<Int>(name), value: index) }
            for (index, name) in hostileNames.enumerated() {
                try await expectEqual(store.read(KVKey<Int>(name)), index, "the value of \(KVKey<Int>(name))")
            }
            let sorted = hostileNames.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            try await expectEqual(store.keys().map { Array($0.utf8) }, sorted, "the UTF-8 of keys()")
        },
        ConformanceCheck("a name longer than 1,024 bytes is refused and changes nothing", needs: [.longestNames]) {
            store in
            let key = KVKey<Int>(String(repeating: "é", count: 513))
            let calls: [(KVStoreError.Operation, () async throws -> Void)] = [
                (.set, { try await store.set(key, value: 1) }), (.read, { _ = try await store.read(key) }),
                (.remove, { try await store.remove(key) }),
            ]
            for (call, body) in calls {
                let error = try await expectError(KVStoreError.self, "\(call) with 1,026 bytes", body)
                try expectEqual(error.code, .invalidKey, "the code of \(call) with a name of 1,026 bytes")
                try expectEqual(error.operation, call, "the operation of \(call) with a name of 1,026 bytes")
                try expectEqual(error.key, key.name, "the key of \(call) with a name of 1,026 bytes")
            }
            try await expectEqual(store.keys(), [], "keys")
            let longest = KVKey<Int>(String(repeating: "é", count: 512))
            try await store.set(longest, value: 1)
            try await expectEqual(store.read(longest), 1, "read of a name of 1,024 bytes")
            try await expectEqual(store.keys(), [longest.name], "keys() after set of a name of 1,024 bytes")
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
                try expect(
                    values.hasMore, "entries(prefix: \"\", after: b, limit: \(limit), at: nil): no more, but d follows")
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
                try expect(!page.hasMore, "entries(prefix: p, limit: \(limit)): more after the last page of values")
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
            let calls: [(call: String, body: @Sendable (any AsyncKVStoring) async throws -> Void)] = [
                ("set(a, value: 1)", { try await $0.set(KVKey<Int>("a"), value: 1) }),
                ("entry(named: a)", { _ = try await $0.entry(named: "a") }),
                ("keys(prefix: \"\")", { _ = try await $0.keys(prefix: "", after: nil, limit: 10) }),
                ("entries(prefix: \"\")", { _ = try await $0.entries(prefix: "", after: nil, limit: 10, at: nil) }),
            ]
            for (call, body) in calls {
                let error = try await expectError(KVStoreError.self, "\(call) in a cancelled task") {
                    try await inCancelledTask { try await body(store) }
                }
                try expectEqual(error.code, .cancelled, "the code of \(error) by \(call) in a cancelled task")
            }
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
            // Requirements count without a change too, and each of several of one name.
            let present = try await store.entry(named: "b")?.revision ?? 0
            try await store.batch { batch in
                batch.require(a, revision: nil)
                batch.require(b, revision: present)
            }
            for revisions in [[present + 1], [present, present + 1], [present + 1, present]] {
                let error = try await expectError(KVStoreError.self, "commit that requires \(revisions) of b") {
                    try await store.batch { batch in
                        for revision in revisions { batch.require(b, revision: revision) }
                    }
                }
                try expectEqual(error.code, .conflict, "the code of commit that requires \(revisions) of b")
            }
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
            // Without a limit, one more than the names of a page.
            let count = declared ?? 1001
            try await store.batch { batch in
                for index in 0..<count { try batch.set(KVKey<Int>("k\(index)"), value: index) }
            }
            try await expectEqual(store.keys().count, count, "the number of names")
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
            let endless = KVKey<Int>("endless")
            try await store.set(endless, value: 1, timeToLive: timeToLive)
            let revision = try await store.entry(named: endless.name)?.revision
            if try await !store.compareAndSet(endless, revision: revision, value: 2) {
                // A busy machine may have let the time pass.
                try await store.set(endless, value: 2)
            }
            var batch = KVBatch()
            for name in names { try batch.set(KVKey<Int>(name), value: 1) }
            batch.remove(KVKey<Int>("removed"))
            try await store.commit(batch, timeToLive: timeToLive)
            try await expectAbsent("removed", in: subject.store)
            try await subject.pass(timeToLive + expiry)
            try await expectEqual(
                store.keys(), ["endless", "longer"], "keys() after the time to live of a batch of \(names)")
            try await expectEqual(store.read(endless), 2, "read(endless) after compareAndSet without a time to live")
            try await expectEqual(
                store.read(KVKey<Int>("longer")), 2, "read(longer) before the end of its second time to live")
        },
        ConformanceCheck("after its time to live a value is absent for the requirements of a batch too") { subject in
            let (store, key, timeToLive) = (subject.store, KVKey<Int>("a"), Duration.seconds(2))
            guard let expiry = try await store.capabilities().expiry else { return }
            try await store.set(key, value: 1, timeToLive: timeToLive)
            let ended = try await store.entry(named: key.name)?.revision
            try await subject.pass(timeToLive + expiry)
            if let ended {  // Nil if a busy machine has let the time pass before.
                try await expectEqual(
                    store.compareAndSet(key, revision: ended, value: 2), false, "compareAndSet(a) of its old revision")
            }
            try await expectEqual(store.createIfAbsent(key, value: 3), true, "createIfAbsent(a) after the old value")
            try await expectEqual(store.read(key), 3, "read(a)")
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
