public import ForgeKVStore

extension ConformanceChecks {
    /// The promises of a key-value store; each check needs a new, empty store.
    public static let keyValueStore: [ConformanceCheck<any KVStoring>] =
        keyValuePresence + keyValueTypes + keyValueReadings + keyValueNames + keyValueConcurrency + keyValueErrors

    /// The promises of a key-value store with raw values, those of ``keyValueStore`` included.
    public static let rawKeyValueStore: [ConformanceCheck<any KVRawStoring>] =
        keyValueStore.map { check in check.on { $0 } } + keyValueRawValues

    /// The promises of a transactional key-value store, those of ``rawKeyValueStore`` included.
    public static let transactionalKeyValueStore: [ConformanceCheck<any KVTransactionalStoring>] =
        rawKeyValueStore.map { check in check.on { $0 } } + keyValueRevisions + keyValueBatches + keyValueSnapshots

    static let keyValuePresence: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("a key that was never set is absent") { store in
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get")
            try expect(!store.contains(KVKey<Int>("a")), "contains is true")
        },
        ConformanceCheck("a value that was set can be read") { store in
            try store.set(KVKey<String>("a"), value: "one")
            try expectEqual(store.get(KVKey<String>("a")), "one", "get")
            try expect(store.contains(KVKey<String>("a")), "contains is false")
        },
        ConformanceCheck("setting again replaces the value") { store in
            let key = KVKey<Int>("a")
            for value in [1, 2, 3] { try store.set(key, value: value) }
            try expectEqual(store.get(key), 3, "get")
        },
        ConformanceCheck("setting again can change the type") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<String>("a"), value: "one")
            try expectEqual(store.get(KVKey<String>("a")), "one", "get as String")
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get as Int")
        },
        ConformanceCheck("a removed key is absent") { store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            try store.remove(key)
            try expectEqual(store.get(key), nil, "get")
            try expect(!store.contains(key), "contains is true")
        },
        ConformanceCheck("a key can be set again after it was removed") { store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 1)
            try store.remove(key)
            try store.set(key, value: 2)
            try expectEqual(store.get(key), 2, "get")
        },
        ConformanceCheck("removing an absent key succeeds") { store in
            try store.remove(KVKey<Int>("a"))
            try expect(!store.contains(KVKey<Int>("a")), "contains is true")
        },
        ConformanceCheck("removing a key keeps the others") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.set(KVKey<Int>("b"), value: 2)
            try store.remove(KVKey<Int>("a"))
            try expectEqual(store.get(KVKey<Int>("b")), 2, "get")
        },
        ConformanceCheck("removing ignores the type") { store in
            try store.set(KVKey<String>("a"), value: "one")
            try store.remove(KVKey<Int>("a"))
            try expect(!store.contains(KVKey<String>("a")), "contains is true")
        },
        ConformanceCheck("removeAll removes every key") { store in
            for index in 0..<50 { try store.set(KVKey<Int>("key \(index)"), value: index) }
            try store.removeAll()
            for index in 0..<50 {
                try expect(!store.contains(KVKey<Int>("key \(index)")), "key \(index) is still there")
            }
        },
        ConformanceCheck("removeAll of an empty store succeeds") { store in
            try store.removeAll()
            try store.removeAll()
        },
        ConformanceCheck("a store can be filled again after removeAll") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try store.removeAll()
            try store.set(KVKey<Int>("b"), value: 2)
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get a")
            try expectEqual(store.get(KVKey<Int>("b")), 2, "get b")
        },
        ConformanceCheck("a stored nil is not an absent key") { store in
            let key = KVKey<Int?>("a")
            try expect(store.get(key) == nil, "an absent key has a value")
            try store.set(key, value: nil)
            try expect(store.contains(key), "contains is false")
            try expect(store.get(key) == .some(.none), "get does not give the stored nil")
            try store.set(key, value: 5)
            try expectEqual(store.get(key) ?? nil, 5, "get")
            try store.remove(key)
            try expect(store.get(key) == nil, "a removed nil is still there")
        },
        ConformanceCheck("contains checks the name, not the type") { store in
            try store.set(KVKey<Int>("a"), value: 1)
            try expect(store.contains(KVKey<String>("a")), "contains is false")
        },
        ConformanceCheck("a value of another type reads as nil and is kept") { store in
            try store.set(KVKey<String>("a"), value: "one")
            try expectEqual(store.get(KVKey<Int>("a")), nil, "get as Int")
            try expectEqual(store.get(KVKey<[Int]>("a")), nil, "get as [Int]")
            try expectEqual(store.get(KVKey<String>("a")), "one", "get as String")
        },
        ConformanceCheck("a number too large for the type reads as nil") { store in
            try store.set(KVKey<Int>("a"), value: 300)
            try expectEqual(store.get(KVKey<UInt8>("a")), nil, "get as UInt8")
            try expectEqual(store.get(KVKey<Int16>("a")), 300, "get as Int16")
        },
        ConformanceCheck("reading returns another object than the one that was set") { store in
            let key = KVKey<CheckObject>("a")
            let object = CheckObject(7)
            try store.set(key, value: object)
            let first = store.get(key)
            let second = store.get(key)
            try expectEqual(first?.number, 7, "number")
            try expect(first !== object && second !== first, "an object is shared")
        },
    ]
}

final class CheckObject: Codable, Sendable {
    let number: Int

    init(_ number: Int) { self.number = number }
}
