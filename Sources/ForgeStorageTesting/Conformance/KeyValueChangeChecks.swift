public import ForgeKVStore

extension ConformanceSuite where Subject == any KVTransactionalStoring {
    /// The promises of a transactional key-value store that reports its changes (`subscribe(to:)`).
    public static var keyValueStoreChanges: Self {
        Self("changes of a key-value store", ConformanceChecks.keyValueStoreChanges)
    }
}

extension ConformanceChecks {
    /// The promises of a transactional key-value store that reports its changes. Each check needs a new, empty store.
    public static let keyValueStoreChanges: [ConformanceCheck<any KVTransactionalStoring>] = [
        ConformanceCheck("the changes of a key begin with its entry, and are those of its bytes in order") { store in
            try store.setRawValue([1], named: "a")
            var changes = try subscribed(to: .key("a"), in: store)
            try store.setRawValue([2], named: "a")
            try store.setRawValue([9], named: "a2")
            try store.removeValue(named: "a")
            try store.batch { $0.append(.set(name: "a", bytes: [3])) }
            let expected: [[UInt8]?] = [[1], [2], nil, [3]]
            for (index, bytes) in expected.enumerated() {
                let change = try await changes.next()
                guard case .changed(let name, let entry, _)? = change, name == "a", entry?.bytes == bytes else {
                    let wanted = bytes.map { "\($0)" } ?? "its removal"
                    throw ConformanceViolation(
                        "change \(index) of a: expected \(wanted), got \(change.map { "\($0)" } ?? "the end")")
                }
            }
        },
        ConformanceCheck("the changes of a prefix are those of the names that begin with its bytes") { store in
            var changes = try subscribed(to: .prefix("e"), in: store)
            for name in ["b", "E", "e\u{301}", "\u{E9}", "e", "be"] { try store.set(KVKey<Int>(name), value: 1) }
            try store.set(KVKey<Int>("e end"), value: 1)
            let found = try await changesBefore("e end", from: &changes).compactMap(\.bytesOfName)
            let expected = ["e\u{301}", "e"].map { Array($0.utf8) }
            try expectEqual(found, expected, "the UTF-8 of the names of the changes of the prefix e")
        },
        ConformanceCheck("the changes of a batch are reported together") { store in
            try store.set(KVKey<Int>("c"), value: 1)
            var changes = try subscribed(to: .prefix(""), in: store)
            try store.batch { batch in
                try batch.set(KVKey<Int>("a"), value: 1)
                try batch.set(KVKey<Int>("b"), value: 1)
                batch.remove(KVKey<Int>("c"))
            }
            let set = try await changes.nextSet()
            let names = set?.changes.compactMap(\.bytesOfName).map { String(decoding: $0, as: UTF8.self) }
            try expectEqual(names?.sorted(), ["a", "b", "c"], "the names of the set of changes after a batch")
        },
        ConformanceCheck("a change is reported when it is visible to reads") { store in
            var changes = try subscribed(to: .prefix(""), in: store)
            let last: UInt8 = 100
            async let writing: Void = { for value in 1...last { try store.setRawValue([value], named: "a") } }()
            var reported: UInt8 = 0
            while reported < last {
                guard let change = try await changes.next() else {
                    throw ConformanceViolation("the changes have ended after that to [\(reported)]")
                }
                guard case .changed(_, let entry?, _) = change, let value = entry.bytes.first else { continue }
                let present = try store.rawValue(named: "a")?.first ?? 0
                try expect(present >= value, "rawValue(named: a) is [\(present)] after the change to [\(value)]")
                reported = value
            }
            try await writing
        },
        ConformanceCheck("removeAll is reported for every name, or by a notice to read again") { store in
            for name in ["a", "b"] { try store.set(KVKey<Int>(name), value: 1) }
            var changes = try subscribed(to: .prefix(""), in: store)
            try store.removeAll()
            try store.set(KVKey<Int>("end"), value: 1)
            let found = try await changesBefore("end", from: &changes)
            let names = Set(found.compactMap(\.bytesOfName))
            try expect(
                found.contains(.resync) || names == [Array("a".utf8), Array("b".utf8)],
                "the changes after removeAll(): expected those of a and b, or resync, got \(found)")
        },
    ]

    private static func subscribed(
        to scope: KVScope, in store: any KVTransactionalStoring
    ) throws -> KVChanges.Iterator {
        guard let changes = store.subscribe(to: scope) else {
            throw ConformanceViolation("subscribe(to: \(scope)): expected changes, got nil")
        }
        return changes.makeAsyncIterator()
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
        throw ConformanceViolation("the changes have ended after \(found), without that of \(end)")
    }
}

extension KVChange {
    fileprivate var bytesOfName: [UInt8]? {
        guard case .changed(let name, _, _) = self else { return nil }
        return Array(name.utf8)
    }
}
