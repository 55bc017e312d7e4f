public import ForgeKVStore

/// A transactional key-value store, initially empty, and the conditions that checks can bring it into.
///
/// A check whose condition is missing is reported as not applicable, or as violated where its capability was declared.
public struct KeyValueStoreUnderTest: Sendable {
    /// The store.
    public var store: any KVTransactionalStoring

    /// Another store of the same content, as another object or process opens it, for the checks that need
    /// ``ConformanceCapability/secondStore``.
    public var other: (any KVTransactionalStoring)?

    /// The maximum size of an encoded value, for the checks that need ``ConformanceCapability/valueSizeLimit``.
    public var maximumValueSizeInBytes: Int?

    /// Leaves less than a mebibyte free on the device, for the checks that need ``ConformanceCapability/limitedSpace``.
    public var fillDevice: (@Sendable () throws -> Void)?

    /// Creates a subject without conditions.
    public init(_ store: any KVTransactionalStoring) {
        self.store = store
    }
}

extension ConformanceCapability {
    /// The store limits the size of encoded values (``KeyValueStoreUnderTest/maximumValueSizeInBytes``).
    public static let valueSizeLimit = ConformanceCapability("a limit of the size of values")
}

extension ConformanceSuite where Subject == KeyValueStoreUnderTest {
    /// The promises of a transactional key-value store at its limit, on a full device, and beside a second store of the
    /// same content. Each check needs a capability.
    public static var keyValueStoreConditions: Self {
        Self("key-value store under conditions", ConformanceChecks.keyValueStoreConditions)
    }
}

extension ConformanceChecks {
    /// The promises of a transactional key-value store under conditions that the subject provides. Each check needs a
    /// new, empty store.
    public static let keyValueStoreConditions: [ConformanceCheck<KeyValueStoreUnderTest>] =
        keyValuesAtLimits + keyValuesOnFullDevices + keyValuesOfTwoStores

    private typealias Check = ConformanceCheck<KeyValueStoreUnderTest>

    /// A condition that a check needs.
    static func condition<Condition>(
        _ condition: Condition?, _ name: String, file: StaticString = #fileID, line: UInt = #line
    ) throws -> Condition {
        guard let condition else {
            throw ConformanceViolation(
                "\(name) is nil: set it, or leave out its capability in having:", file: file, line: line)
        }
        return condition
    }

    private static let keyValuesAtLimits: [Check] = [
        Check("a raw value may have the maximum size, and no more", needs: [.valueSizeLimit]) { subject in
            let limit = try condition(subject.maximumValueSizeInBytes, "maximumValueSizeInBytes")
            let largest = [UInt8](repeating: 1, count: limit)
            try subject.store.setRawValue(largest, named: "a")
            try expect(try subject.store.rawValue(named: "a") == largest, "rawValue(named: a): expected \(limit) bytes")
            try await expectRefused(subject, "setRawValue", key: "a") { store in
                try store.setRawValue(largest + [1], named: "a")
            }
        },
        Check(
            "a value of exactly the maximum size is stored by every call, and no larger one", needs: [.valueSizeLimit]
        ) {
            subject in
            let store = subject.store
            let limit = try condition(subject.maximumValueSizeInBytes, "maximumValueSizeInBytes")
            let calls: [(call: String, store: (any KVTransactionalStoring, _ text: String) throws -> Void)] = [
                ("set", { try $0.set(KVKey<String>("a"), value: $1) }),
                ("set of an array", { try $0.set(KVKey<[String]>("a"), value: [$1]) }),
                ("batch", { store, text in try store.batch { try $0.set(KVKey<String>("a"), value: text) } }),
            ]
            for (call, body) in calls {
                // The encoding adds a few bytes, which a text that is almost as long shows.
                var count = limit - min(64, limit / 2)
                try body(store, String(repeating: "x", count: count))
                count += limit - (try store.rawValue(named: "a")?.count ?? 0)
                let text = String(repeating: "x", count: count)
                try body(store, text)
                try expectEqual(
                    try store.rawValue(named: "a")?.count, limit, "the size of the largest value by \(call)")
                try await expectRefused(subject, call, key: "a") { try body($0, text + "x") }
            }
        },
        Check("a value above the maximum size is refused by every call that stores one", needs: [.valueSizeLimit]) {
            subject in
            let limit = try condition(subject.maximumValueSizeInBytes, "maximumValueSizeInBytes")
            let (key, large) = (KVKey<String>("a"), String(repeating: "x", count: limit + 1))
            try subject.store.set(key, value: "old")
            let calls: [(call: String, key: String, body: (any KVTransactionalStoring) throws -> Void)] = [
                ("set", "a", { try $0.set(key, value: large) }),
                ("set of an array", "b", { try $0.set(KVKey<[String]>("b"), value: [large]) }),
                ("createIfAbsent", "b", { _ = try $0.createIfAbsent(KVKey<String>("b"), value: large) }),
                (
                    "compareAndSet", "a",
                    { _ = try $0.compareAndSet(key, revision: try $0.entry(named: "a")?.revision, value: large) }
                ),
                ("update", "a", { _ = try $0.update(key, default: "") { $0 = large } }),
            ]
            for (call, name, body) in calls { try await expectRefused(subject, call, key: name, body) }
        },
        Check("a batch with a value above the maximum size changes nothing", needs: [.valueSizeLimit]) { subject in
            let limit = try condition(subject.maximumValueSizeInBytes, "maximumValueSizeInBytes")
            let large = String(repeating: "x", count: limit + 1)
            try subject.store.set(KVKey<String>("a"), value: "old")
            try await expectRefused(subject, "batch", key: "b") { store in
                try store.batch { batch in
                    try batch.set(KVKey<Int>("c"), value: 1)
                    batch.remove(KVKey<String>("a"))
                    try batch.set(KVKey<String>("b"), value: large)
                }
            }
        },
        Check("the values of a batch may exceed the maximum size together", needs: [.valueSizeLimit]) { subject in
            let limit = try condition(subject.maximumValueSizeInBytes, "maximumValueSizeInBytes")
            let bytes = [UInt8](repeating: 1, count: limit / 2 + 1)
            var batch = KVBatch()
            for name in ["a", "b"] { batch.append(.set(name: name, bytes: bytes)) }
            try subject.store.commit(batch)
            for name in ["a", "b"] {
                let count = try subject.store.rawValue(named: name)?.count
                try expectEqual(count, bytes.count, "the size of \(name) after a commit of two values")
            }
        },
    ]

    /// Expects that a call fails with `.valueTooLarge` and changes no entry.
    private static func expectRefused(
        _ subject: KeyValueStoreUnderTest, _ call: String, key: String,
        _ body: (any KVTransactionalStoring) throws -> Void
    ) async throws {
        let store = subject.store
        let before = try entries(of: store)
        let error = try await expectError(KVStoreError.self, "\(call) with a value above the maximum size") {
            try body(store)
        }
        try expectEqual(error.code, .valueTooLarge, "the code of \(error) by \(call)")
        try expectEqual(error.operation, call == "batch" ? .batch : .set, "the operation of \(error) by \(call)")
        try expectEqual(error.key, key, "the key of \(error) by \(call)")
        try expect(try entries(of: store) == before, "\(call) of a value that is too large has changed an entry")
    }

    static func entries(of store: any KVTransactionalStoring) throws -> [String: KVEntry] {
        var entries: [String: KVEntry] = [:]
        for name in try store.keys() { entries[name] = try store.entry(named: name) }
        return entries
    }

    private static let keyValuesOnFullDevices: [Check] = [
        Check("a write that fails on a full device changes nothing, and says why", needs: [.limitedSpace]) { subject in
            let store = subject.store
            try store.set(KVKey<String>("a"), value: "old")
            try condition(subject.fillDevice, "fillDevice")()
            let large = [UInt8](repeating: 1, count: 2 << 20)
            var refusal: (error: KVStoreError, name: String, before: [String: KVEntry])?
            // The store may have reserved space before.
            for number in 0..<16 where refusal == nil {
                let before = try entries(of: store)
                do {
                    try store.setRawValue(large, named: "large \(number)")
                } catch let error as KVStoreError {
                    refusal = (error, "large \(number)", before)
                }
            }
            guard let refusal else { throw ConformanceViolation("16 values of 2 MiB were stored on a full device") }
            let error = refusal.error
            try expect(error.isOutOfSpace, "setRawValue on a full device: expected no space, got \(error)")
            try expectEqual(error.key, refusal.name, "the key of \(error)")
            try expect(try entries(of: store) == refusal.before, "a write that was refused has changed an entry")
            try expectEqual(try store.read(KVKey<String>("a")), "old", "read(a) after a write that was refused")
        },
        Check("a write that fails on a full device keeps the value that it would have replaced", needs: [.limitedSpace])
        {
            subject in
            let store = subject.store
            for name in ["a", "b", "c", "d"] { try store.set(KVKey<String>(name), value: "old") }
            try condition(subject.fillDevice, "fillDevice")()
            let bytes = [UInt8](repeating: 1, count: 2 << 20)
            let text = String(repeating: "x", count: 2 << 20)
            let calls: [(call: String, body: () throws -> Void)] = [
                ("set(a)", { try store.set(KVKey<String>("a"), value: text) }),
                ("setRawValue(named: b)", { try store.setRawValue(bytes, named: "b") }),
                ("update(c)", { try store.update(KVKey<String>("c"), default: "") { $0 = text } }),
                (
                    "commit that sets d and e, removes a, and sets b to 2 MiB",
                    {
                        try store.batch { batch in
                            try batch.set(KVKey<String>("d"), value: "new")
                            try batch.set(KVKey<Int>("e"), value: 1)
                            batch.remove(KVKey<String>("a"))
                            batch.append(.set(name: "b", bytes: bytes))
                        }
                    }
                ),
            ]
            for (call, body) in calls {
                var refused: (before: [String: KVEntry], error: KVStoreError)?
                // The store may have reserved space before.
                for _ in 0..<16 where refused == nil {
                    let before = try entries(of: store)
                    do {
                        try body()
                    } catch let error as KVStoreError {
                        refused = (before, error)
                    }
                }
                guard let refused else { throw ConformanceViolation("\(call) on a full device: stored 16 times 2 MiB") }
                try expect(
                    refused.error.isOutOfSpace, "\(call) on a full device: expected no space, got \(refused.error)")
                try expect(
                    try entries(of: store) == refused.before,
                    "\(call) on a full device has changed an entry, but was refused")
            }
            // What fits is stored, or refused as a whole.
            do {
                try store.setRawValue([7], named: "small")
                try expectEqual(try store.rawValue(named: "small"), [7], "rawValue(named: small) after setRawValue")
            } catch let error as KVStoreError where error.isOutOfSpace {
                try expectEqual(try store.rawValue(named: "small"), nil, "rawValue(named: small), which was refused")
            }
        },
    ]

    private static let keyValuesOfTwoStores: [Check] = [
        Check("a second store of the same content sees every change when the call returns", needs: [.secondStore]) {
            subject in
            let (store, other) = (subject.store, try condition(subject.other, "other"))
            let (a, b) = (KVKey<Int>("a"), KVKey<String>("b"))
            try expectEqual(try other.keys(), [], "keys() of the second store")
            for value in 1...3 {
                try store.set(a, value: value)
                try expectEqual(other.get(a), value, "get(a) of the second store")
                try expect(try other.entry(named: "a") == store.entry(named: "a"), "the stores have different entries")
            }
            try other.batch { batch in
                batch.remove(a)
                try batch.set(b, value: "of the second")
            }
            try expect(!store.contains(a), "contains(a) of the first store: expected false")
            try expectEqual(store.get(b), "of the second", "get(b) of the first store")
            try other.set(a, value: 4)
            try store.remove(b)
            try expectEqual(try other.keys(), ["a"], "keys() of the second store after remove(b)")
            try other.removeAll()
            try expectEqual(try store.keys(), [], "keys() of the first store after removeAll()")
        },
        Check("a change through one store invalidates the revisions that the other has read", needs: [.secondStore]) {
            subject in
            let (store, other) = (subject.store, try condition(subject.other, "other"))
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            let old = try other.entry(named: "a")?.revision
            try store.set(key, value: 2)
            try expect(
                try !other.compareAndSet(key, revision: old, value: 3),
                "compareAndSet(a) of the second store with the revision before a change of the first: expected false")
            try expectEqual(store.get(key), 2, "get(a) of the first store")
            try expect(
                try !other.createIfAbsent(key, value: 3), "createIfAbsent(a) of the second store: expected false")
            try expect(
                try other.compareAndSet(key, revision: try store.entry(named: "a")?.revision, value: 3),
                "compareAndSet(a) of the second store with the revision of the first: expected true")
            try expectEqual(store.get(key), 3, "get(a) of the first store after compareAndSet of the second")
        },
        Check("revisions increase with every write, whichever of two stores makes it", needs: [.secondStore]) {
            subject in
            let stores = [subject.store, try condition(subject.other, "other")]
            let texts = ["the first store", "the second store"]
            let key = KVKey<Int>("a")
            var last: UInt64 = 0
            // The stores write in turns, and several times in a row.
            for (number, writer) in [0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0].enumerated() {
                if number == 6 { try stores[writer].remove(key) }
                try stores[writer].set(key, value: number)
                let revisions = try stores.map { try $0.entry(named: "a")?.revision ?? 0 }
                try expectEqual(
                    revisions[1], revisions[0],
                    "the revision of a in the second store, beside that in the first, after set(a) of \(texts[writer])")
                try expect(
                    revisions[0] > last,
                    "the revision of a after set(a) of \(texts[writer]): expected more than \(last), got \(revisions[0])"
                )
                last = revisions[0]
            }
            // The revision that one store has read, after as many writes of the other as there were before.
            for (writer, reader) in [(0, 1), (1, 0)] {
                let old = try stores[reader].entry(named: "a")?.revision
                for number in 0..<40 {
                    try stores[writer].set(key, value: number)
                    try expect(
                        try !stores[reader].compareAndSet(key, revision: old, value: -1),
                        "compareAndSet(a) of \(texts[reader]) after \(number + 1) writes of \(texts[writer]): expected false"
                    )
                }
            }
        },
        Check("no update through two stores is lost", needs: [.secondStore]) { subject in
            let stores = [subject.store, try condition(subject.other, "other")]
            let key = KVKey<Int>("a")
            try subject.store.set(key, value: 0)
            try await racing(threads: 4) { thread in
                for number in 0..<100 {
                    try stores[thread % 2].update(key, default: 0) { $0 += 1 }
                    if number.isMultiple(of: 4) { interruptOthers() }
                }
            }
            for store in stores { try expectEqual(store.get(key), 400, "the sum") }
        },
        Check(
            "a subscriber of one store receives the changes of the other, or a notice to read again",
            needs: [.secondStore]
        ) { subject in
            let stores = [subject.store, try condition(subject.other, "other")]
            let calls: [(call: String, body: (any KVTransactionalStoring) throws -> Void)] = [
                ("set(a)", { try $0.set(KVKey<Int>("a"), value: 1) }),
                ("setRawValue(named: a)", { try $0.setRawValue([7], named: "a") }),
                ("remove(a)", { try $0.remove(KVKey<Int>("a")) }),
                ("a batch that sets a", { try $0.batch { try $0.set(KVKey<Int>("a"), value: 2) } }),
                ("removeAll()", { try $0.removeAll() }),
            ]
            for (writer, reader) in [(stores[0], stores[1]), (stores[1], stores[0])] {
                for scope in [KVScope.key("a"), .prefix("a")] {
                    // Not every store reports changes.
                    guard let changes = reader.subscribe(to: scope) else { return }
                    if case .key = scope { _ = try await WaitingConsumer(of: changes).set("the first of \(scope)") }
                    for (call, body) in calls {
                        let consumer = WaitingConsumer(of: changes)
                        try body(writer)
                        _ = try await consumer.set(
                            "nextSet() of \(scope) of one store, which waited during \(call) of the other")
                    }
                }
            }
        },
    ]
}
