public import ForgeKVStore

extension ConformanceSuite where Subject == any KVTransactionalStoring {
    /// The promises of a transactional key-value store that reports its changes (`subscribe(to:)`).
    public static var keyValueStoreChanges: Self {
        Self("changes of a key-value store", ConformanceChecks.keyValueStoreChanges)
    }
}

extension ConformanceChecks {
    /// The promises of a transactional key-value store that reports its changes. Each check needs a new, empty store.
    public static let keyValueStoreChanges: [ConformanceCheck<any KVTransactionalStoring>] =
        reportedChanges + deliveredChanges + followedChanges + changesBesideWriters

    /// What any key-value store that reports its changes promises; one may report none.
    static let keyValueReports: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("a store that reports changes reports those of every call, removeAll included") { store in
            guard let changes = store.subscribe(to: .key("a")) else { return }
            let key = KVKey<Int>("a")
            let calls: [(call: String, isPresent: Bool, body: (any KVStoring) throws -> Void)] = [
                ("subscribe(to: .key(a)) of an absent a", false, { _ in }),
                ("set(a, value: 1)", true, { try $0.set(key, value: 1) }),
                ("set(a, value: \"text\")", true, { try $0.set(KVKey<String>("a"), value: "text") }),
                ("remove(a)", false, { try $0.remove(key) }),
                ("set(a, value: 2)", true, { try $0.set(key, value: 2) }),
                ("removeAll()", false, { try $0.removeAll() }),
                ("set(a, value: 3)", true, { try $0.set(key, value: 3) }),
            ]
            for (call, isPresent, body) in calls {
                let consumer = WaitingConsumer(of: changes)
                try body(store)
                let text = "the change of a for a consumer that waited during \(call)"
                let found = try await consumer.set(text).changes
                try expect(
                    found.last == .resync || found.last.map { $0.bytes != nil } == isPresent,
                    "\(text): expected that a is \(isPresent ? "present" : "absent"), got \(found.map(\.text))")
            }
        }
    ]

    private typealias Check = ConformanceCheck<any KVTransactionalStoring>

    /// A call, by its text.
    private typealias Call = (call: String, body: (any KVTransactionalStoring) throws -> Void)

    /// Which calls are reported, and how.
    private static let reportedChanges: [Check] = [
        Check("the changes of a key begin with its entry or its absence, and are those of its bytes in order") {
            store in
            let calls: [(call: String, isChange: Bool, body: (any KVTransactionalStoring) throws -> Void)] = [
                ("setRawValue([1], named: a)", true, { try $0.setRawValue([1], named: "a") }),
                ("setRawValue([1], named: a), equal bytes,", false, { try $0.setRawValue([1], named: "a") }),
                ("setRawValue([2], named: a)", true, { try $0.setRawValue([2], named: "a") }),
                ("setRawValue([9], named: a2)", false, { try $0.setRawValue([9], named: "a2") }),
                ("removeValue(named: a)", true, { try $0.removeValue(named: "a") }),
                ("remove(a), which is absent,", false, { try $0.remove(KVKey<Int>("a")) }),
                ("commit that sets a to [3]", true, { try $0.batch { $0.append(.set(name: "a", bytes: [3])) } }),
                ("commit that is refused", false, refusedBatch(setting: "a")),
                (
                    "commit that sets a to [5], sets b and removes a", true,
                    { store in
                        try store.batch { batch in
                            batch.append(.set(name: "a", bytes: [5]))
                            batch.append(.set(name: "b", bytes: [5]))
                            batch.append(.remove(name: "a"))
                        }
                    }
                ),
                ("set(a, value: 6)", true, { try $0.set(KVKey<Int>("a"), value: 6) }),
                ("removeAll()", true, { try $0.removeAll() }),
                ("setRawValue([7], named: a)", true, { try $0.setRawValue([7], named: "a") }),
            ]
            var subscribers = [
                ("the first subscriber", try subscription(to: .key("a"), in: store), 0),
                ("the second subscriber", try subscription(to: .key("a"), in: store), 0),
            ]
            var expected: [(after: String, entry: KVEntry?)] = [("subscribe(to: .key(a)) of an absent a", nil)]
            for (index, (call, isChange, body)) in calls.enumerated() {
                try body(store)
                if isChange { expected.append((call, try store.entry(named: "a"))) }
                if index == 0 {
                    subscribers.append(
                        ("the subscriber after the first write", try subscription(to: .key("a"), in: store), 1))
                }
            }
            for (subscriber, changes, first) in subscribers {
                for (call, entry) in expected[first...] {
                    let text = "the change of a for \(subscriber) after \(call)"
                    let set = try await nextSet(of: changes, text)
                    let change = KVChange.changed(name: "a", entry: entry, revision: nil)
                    try expect(
                        set.changes == [change], "\(text): expected \(change.text), got \(set.changes.map(\.text))")
                }
            }
            // All changes have been delivered: the first of these calls leaves the bytes as they are.
            for byte: UInt8 in 7...8 { try store.setRawValue([byte], named: "a") }
            for (subscriber, changes, _) in subscribers {
                let text = "the change of a for \(subscriber) after setRawValue([7]), equal bytes, and setRawValue([8])"
                let set = try await nextSet(of: changes, text)
                try expectEqual(set.changes.map(\.bytes), [[8]], "the bytes of \(text)")
            }
            let long = String(repeating: "x", count: 1025)
            let set = try await nextSet(
                of: try subscription(to: .key(long), in: store), "the first change of a key of 1,025 bytes")
            try expect(
                set.changes == [.changed(name: long, entry: nil, revision: nil)],
                "the first change of a key of 1,025 bytes: expected its absence, got \(set.changes.map(\.text))")
        },
        Check("the changes of a key or a prefix are those of the names with its bytes") { store in
            let (composed, decomposed) = ("\u{E9}", "e\u{301}")
            for name in [composed, decomposed] { try store.setRawValue([0], named: name) }
            let keys = try [composed, decomposed].map { (name: $0, changes: try subscription(to: .key($0), in: store)) }
            let prefix = try subscription(to: .prefix("e"), in: store)
            for name in ["b", "E", decomposed, composed, "e", "be"] { try store.setRawValue([1], named: name) }
            for name in ["e end", decomposed, composed] { try store.setRawValue([2], named: name) }
            var iterator = prefix.makeAsyncIterator()
            let found = try await changesBefore("e end", from: &iterator).compactMap(\.bytesOfName)
            try expectEqual(
                found, [decomposed, "e"].map { Array($0.utf8) }, "the UTF-8 of the names of the changes of the prefix e"
            )
            for (name, changes) in keys {
                for number: UInt8 in 0...2 {
                    let text = "change \(number) of the key \(Array(name.utf8))"
                    let change = try await nextSet(of: changes, text).changes.first
                    try expectEqual(change?.bytesOfName, Array(name.utf8), "the UTF-8 of the name of \(text)")
                    try expectEqual(change?.bytes, [number], "the bytes of \(text)")
                }
            }
        },
        Check("a call that changes nothing is not reported") { store in
            try store.setRawValue([1], named: "a")
            let calls: [Call] = [
                ("remove(b), which is absent", { try $0.remove(KVKey<Int>("b")) }),
                ("removeValue(named: b), which is absent", { try $0.removeValue(named: "b") }),
                ("commit that is refused", refusedBatch(setting: "a")),
                ("commit of an empty batch", { try $0.commit(KVBatch()) }),
            ]
            for (call, body) in calls {
                var iterator = try subscription(to: .prefix(""), in: store).makeAsyncIterator()
                try body(store)
                try store.setRawValue([1], named: "end")
                let found = try await changesBefore("end", from: &iterator)
                try expectEqual(found.map(\.text), [], "the changes of the prefix \"\" after \(call)")
            }
        },
        Check("removeAll is reported for every name, or by a notice to read again") { store in
            for name in ["a", "b"] { try store.set(KVKey<Int>(name), value: 1) }
            var iterator = try subscription(to: .prefix(""), in: store).makeAsyncIterator()
            try store.removeAll()
            try store.set(KVKey<Int>("end"), value: 1)
            let found = try await changesBefore("end", from: &iterator)
            let names = Set(found.compactMap(\.bytesOfName))
            try expect(
                found.contains(.resync) || names == [Array("a".utf8), Array("b".utf8)],
                "the changes after removeAll(): expected those of a and b, or resync, got \(found.map(\.text))")
        },
    ]

    /// A batch that requires a revision which no value has.
    private static func refusedBatch(setting name: String) -> (any KVTransactionalStoring) throws -> Void {
        { store in
            do {
                try store.batch { batch in
                    batch.append(.set(name: name, bytes: [4]))
                    batch.require(name, revision: .max)
                }
            } catch let error as KVStoreError where error.code == .conflict {
                return
            }
            throw ConformanceViolation("commit of a batch that requires revision \(UInt64.max) of \(name): not refused")
        }
    }

    /// When changes are delivered, and how many.
    private static let deliveredChanges: [Check] = [
        Check("a consumer that waits receives the change of every call") { store in
            let key = KVKey<Int>("a")
            let calls: [Call] = [
                ("set(a, value: 1)", { try $0.set(key, value: 1) }),
                ("remove(a)", { try $0.remove(key) }),
                ("setRawValue([2], named: a)", { try $0.setRawValue([2], named: "a") }),
                ("removeValue(named: a)", { try $0.removeValue(named: "a") }),
                ("commit that sets a", { try $0.batch { $0.append(.set(name: "a", bytes: [3])) } }),
                ("commit that removes a", { try $0.batch { $0.append(.remove(name: "a")) } }),
                ("createIfAbsent(a, value: 4)", { _ = try $0.createIfAbsent(key, value: 4) }),
                ("removeAll()", { try $0.removeAll() }),
            ]
            for scope in [KVScope.key("a"), .prefix("a")] {
                try store.setRawValue([0], named: "a")
                let changes = try subscription(to: scope, in: store)
                if case .key = scope { _ = try await nextSet(of: changes, "the first change of \(scope)") }
                for (call, body) in calls {
                    let consumer = WaitingConsumer(of: changes)
                    try body(store)
                    let text = "nextSet() of \(scope), which waited during \(call)"
                    let set = try await consumer.set(text)
                    let bytes = try store.rawValue(named: "a")
                    // Of a prefix, a removal may be a notice to read again.
                    if case .prefix = scope, bytes == nil, set.changes == [.resync] { continue }
                    try expectEqual(set.changes.map(\.bytes), [bytes], "the bytes of the changes from \(text)")
                    try expectEqual(set.changes.map(\.bytesOfName), [[0x61]], "the UTF-8 of the names from \(text)")
                }
            }
        },
        Check("the changes end when the consuming task is cancelled") { store in
            try store.setRawValue([0], named: "a")
            for scope in [KVScope.key("a"), .prefix("a")] {
                let changes = try subscription(to: scope, in: store)
                if case .key = scope { _ = try await nextSet(of: changes, "the first change of \(scope)") }
                let consumer = WaitingConsumer(of: changes)
                consumer.cancel()
                let text = "nextSet() of \(scope), whose task was cancelled"
                switch try await consumer.result() {
                case .success(nil): break
                case .success(let set?): throw ConformanceViolation("\(text): expected nil, got \(set)")
                case .failure(let error): throw ConformanceViolation("\(text): expected nil, got \(error)")
                case nil: throw ConformanceViolation("\(text) has not returned within \(Waiting.limit)")
                }
            }
        },
        Check("beyond the limit of a key the first changes are kept, and the last one arrives") { store in
            let last: UInt8 = 100
            for limit in [1, 4] {
                try store.setRawValue([0], named: "a")
                let changes = try subscription(to: .key("a", limit: limit), in: store)
                for value in 1...last { try store.setRawValue([value], named: "a") }
                var found: [UInt8] = []
                let scope = "the changes of .key(a, limit: \(limit)) to [0]...[\(last)]"
                while found.last != last {
                    let set = try await nextSet(of: changes, "\(scope), after \(found): the next one")
                    for change in set.changes { found.append(change.bytes?.first ?? .max) }
                    try expect(
                        zip(found, found.dropFirst()).allSatisfy(<), "\(scope): expected them in order, got \(found)")
                }
                let kept = Array(0..<UInt8(limit - 1))
                try expect(found.starts(with: kept), "\(scope): expected \(kept) first, got \(found)")
                // A layer may keep as many as each of its base stores.
                try expect(
                    found.count <= 4 * limit,
                    "\(scope), all made before the first call of next: expected about \(limit), got \(found.count)")
            }
            // Each change that is taken makes room for another one.
            try store.setRawValue([0], named: "a")
            let changes = try subscription(to: .key("a", limit: 5), in: store)
            for value: UInt8 in 1...4 { try store.setRawValue([value], named: "a") }
            let scope = "the changes of .key(a, limit: 5) to [0]...[20], of which five are undelivered at a time"
            var found: [UInt8] = []
            for value: UInt8 in 5...25 {
                let set = try await nextSet(of: changes, "\(scope), after \(found): the next one")
                for change in set.changes { found.append(change.bytes?.first ?? .max) }
                if value <= 20 { try store.setRawValue([value], named: "a") }
                if found.last == 20 { break }
            }
            try expectEqual(found, Array(0...20), scope)
        },
    ]

    /// What the changes of a prefix lead to.
    private static let followedChanges: [Check] = [
        Check("who follows a prefix, and reads again at a notice, has the content of the store") { store in
            for name in ["a", "b"] { try store.setRawValue([1], named: name) }
            let changes = try subscription(to: .prefix(""), in: store)
            var followed = try entries(of: store)
            let calls: [Call] = [
                (
                    "two changes of a, a removal of b, removeAll() and a change of d",
                    { store in
                        for value: UInt8 in 2...3 { try store.setRawValue([value], named: "a") }
                        try store.removeValue(named: "b")
                        try store.removeAll()
                        try store.setRawValue([1], named: "d")
                    }
                ),
                (
                    "values of several types, and two changes of d",
                    { store in
                        for sample in TypeSample.all { try sample.set(store, sample.name) }
                        for value: UInt8 in 2...3 { try store.setRawValue([value], named: "d") }
                    }
                ),
            ]
            var number: UInt8 = 0
            for (call, body) in calls {
                try body(store)
                // A notice may stand for the first of these changes, but not for all.
                var isReported = false
                for _ in 1...8 where !isReported {
                    number += 1
                    try store.setRawValue([number], named: "end")
                    while followed["end"]?.bytes != [number] {
                        let set = try await nextSet(of: changes, "the changes of the prefix \"\" after \(call)")
                        for change in set.changes {
                            guard case .changed(let name, let entry, _) = change else {
                                followed = try entries(of: store)
                                continue
                            }
                            followed[name] = entry
                            if name == "end" { isReported = true }
                        }
                    }
                }
                try expect(isReported, "8 changes of end after \(call): expected one of them, got notices alone")
                try expectEqual(followed, try entries(of: store), "what was followed after \(call)")
            }
        }
    ]

    /// How changes are reported while they are made.
    private static let changesBesideWriters: [Check] = [
        Check("the changes of a batch are reported together") { store in
            try store.setRawValue([1], named: "c")
            let changes = try subscription(to: .prefix(""), in: store)
            try store.batch { batch in
                batch.append(.set(name: "a", bytes: [1]))
                batch.append(.set(name: "b", bytes: [1]))
                batch.append(.remove(name: "c"))
            }
            let set = try await nextSet(of: changes, "the changes of a batch")
            let found = set.changes.compactMap(\.bytesOfName).map { String(decoding: $0, as: UTF8.self) }
            try expect(
                found.sorted() == ["a", "b", "c"] || set.changes == [.resync],
                "the set of changes after a batch: expected those of a, b and c, or resync, got \(set.changes.map(\.text))"
            )
            for case .changed(let name, let entry, _) in set.changes {
                try expectEqual(entry, try store.entry(named: name), "the entry in the change of \(name) after a batch")
            }

            var single = try subscription(to: .prefix(""), in: store).makeAsyncIterator()
            try store.batch { batch in for name in ["a", "b", "c"] { batch.append(.set(name: name, bytes: [2])) } }
            if case .changed? = try await single.next() {
                let rest = try await single.nextSet()?.changes.map(\.text) ?? []
                try expectEqual(rest.count, 2, "how many changes nextSet() has after next() has taken the first of 3")
                try store.setRawValue([2], named: "d")
                let names = try await single.nextSet()?.changes.map(\.bytesOfName)
                try expectEqual(names, [[0x64]], "the UTF-8 of the names from nextSet() after it had \(rest)")
            }

            let names = (0..<16).map { "n\($0)" }
            let last: UInt8 = 60
            var iterator = try subscription(to: .prefix("n"), in: store).makeAsyncIterator()
            async let writing: Void = {
                for number in 1...last where !Task.isCancelled {
                    try store.batch { batch in for name in names { batch.append(.set(name: name, bytes: [number])) } }
                }
            }()
            var reported: UInt8 = 0
            while reported < last {
                guard let set = try await iterator.nextSet() else {
                    throw ConformanceViolation("the changes beside batches have ended after batch \(reported)")
                }
                let numbers = set.changes.compactMap(\.bytes?.first)
                try expectEqual(
                    Set(set.changes.compactMap { $0.bytesOfName.map { String(decoding: $0, as: UTF8.self) } }),
                    Set(names), "the names of the set of changes beside batches that set each of them")
                guard numbers.suffix(names.count).allSatisfy({ $0 == numbers.last }), let number = numbers.last else {
                    throw ConformanceViolation(
                        "one set of changes beside batches of 16 names has the numbers \(numbers)")
                }
                reported = number
            }
            try await writing
        },
        Check("no write is missed while a consumer subscribes") { store in
            let isDone = Flag()
            async let writing: Void = {
                var number: UInt64 = 0
                while !isDone.isSet, !Task.isCancelled {
                    number += 1
                    try store.setRawValue(number.bytes, named: "a")
                }
            }()
            for round in 1...24 {
                var iterator = try subscription(to: .key("a"), in: store).makeAsyncIterator()
                var last: UInt64?
                for _ in 1...3 {
                    guard case .changed(_, let entry, _)? = try await iterator.next() else {
                        throw ConformanceViolation("subscription \(round) to a has ended after write \(last ?? 0)")
                    }
                    let number = UInt64(entry?.bytes ?? [])
                    try expectEqual(
                        number, last.map { $0 + 1 } ?? number,
                        "subscription \(round) to a: the write after \(last ?? 0)")
                    last = number
                }
            }
            isDone.set()
            try await writing
        },
        Check("beside four writers, changes are reported in the order of the writes, when they are visible") { store in
            var iterator = try subscription(to: .key("a", limit: 100_000), in: store).makeAsyncIterator()
            async let writing: Void = {
                let end = ContinuousClock.now + Waiting.race * 2
                // More threads than processors, each of which interrupts another one wherever that is in its call.
                try await racing(threads: 4) { writer in
                    var number: UInt64 = 0
                    while number < 60 || ContinuousClock.now < end {
                        number += 1
                        try store.setRawValue((number << 8 | UInt64(writer)).bytes, named: "a")
                        if number.isMultiple(of: 4) { interruptOthers() }
                    }
                }
                try store.setRawValue([], named: "a")
            }()
            var last: UInt64 = 0
            while true {
                guard case .changed(_, let entry, _)? = try await iterator.next() else {
                    throw ConformanceViolation("the changes of a have ended after revision \(last)")
                }
                guard let entry else { continue }
                // Texts are made only for a violation: making one would give a write time to become visible.
                guard entry.revision > last else {
                    throw ConformanceViolation(
                        "the change of a to revision \(entry.revision) is reported after \(last)")
                }
                last = entry.revision
                let present = try store.entry(named: "a")?.revision ?? 0
                guard present >= last else {
                    throw ConformanceViolation(
                        "entry(named: a) has revision \(present) after the change to \(last) was reported")
                }
                if entry.bytes.isEmpty { break }
            }
            try await writing
        },
    ]

    private static func subscription(to scope: KVScope, in store: any KVTransactionalStoring) throws -> KVChanges {
        guard let changes = store.subscribe(to: scope) else {
            throw ConformanceViolation("subscribe(to: \(scope)): expected changes, got nil")
        }
        return changes
    }

    /// The next set of changes; `text` names it.
    private static func nextSet(of changes: KVChanges, _ text: String) async throws -> KVChangeSet {
        try await WaitingConsumer(of: changes).set(text)
    }

    /// The changes before that of a name which is written last, or up to a notice to read again, which covers the later
    /// ones.
    private static func changesBefore(
        _ end: String, from iterator: inout KVChanges.Iterator
    ) async throws -> [KVChange] {
        var found: [KVChange] = []
        while let change = try await iterator.next() {
            if case .changed(let name, _, _) = change, name == end { return found }
            found.append(change)
            if change == .resync { return found }
        }
        throw ConformanceViolation("the changes have ended after \(found.map(\.text)), without that of \(end)")
    }
}

extension KVChange {
    fileprivate var bytesOfName: [UInt8]? {
        guard case .changed(let name, _, _) = self else { return nil }
        return Array(name.utf8)
    }

    /// The change in a message.
    fileprivate var text: String {
        guard case .changed(let name, let entry, _) = self else { return "resync" }
        return "\(name.escaped) " + (entry.map { "with \($0.bytes) and revision \($0.revision)" } ?? "is absent")
    }

    /// The bytes of the entry; nil if the name became absent.
    fileprivate var bytes: [UInt8]? {
        guard case .changed(_, let entry, _) = self else { return nil }
        return entry?.bytes
    }
}

extension UInt64 {
    fileprivate var bytes: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: self >> (56 - 8 * $0)) } }

    fileprivate init(_ bytes: [UInt8]) { self = bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}
