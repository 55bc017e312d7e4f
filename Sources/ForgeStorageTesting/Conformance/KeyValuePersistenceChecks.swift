public import ForgeKVStore
import Synchronization

/// The location of a persistent key-value store, initially empty, that can be opened again and again.
public struct KeyValueStoreLocation<Store>: Sendable {
    private let opening: @Sendable () throws -> Store

    /// Creates a location; `open` opens its store, after the previous instance has been released.
    public init(open: @escaping @Sendable () throws -> Store) {
        opening = open
    }

    /// Opens the store.
    public func open() throws -> Store { try opening() }
}

extension ConformanceChecks {
    /// The promises of a persistent key-value store.
    public static let keyValueStorePersistence: [ConformanceCheck<KeyValueStoreLocation<any KVStoring>>] =
        keyValuePersistence + keyValueNamesAfterReopening + keyValueOpenings + keyValueReadingsAfterReopening

    /// The promises of a persistent key-value store with raw values, those of ``keyValueStorePersistence`` included.
    public static let rawKeyValueStorePersistence: [ConformanceCheck<KeyValueStoreLocation<any KVRawStoring>>] =
        keyValueStorePersistence.map { check in check.on { place in KeyValueStoreLocation { try place.open() } } }
        + rawKeyValuePersistence

    /// The promises of a persistent transactional key-value store, those of ``rawKeyValueStorePersistence`` included.
    public static let transactionalKeyValueStorePersistence:
        [ConformanceCheck<KeyValueStoreLocation<any KVTransactionalStoring>>] =
            rawKeyValueStorePersistence.map { check in check.on { place in KeyValueStoreLocation { try place.open() } }
            }
            + transactionalKeyValuePersistence

    private static let keyValuePersistence: [ConformanceCheck<KeyValueStoreLocation<any KVStoring>>] = [
        ConformanceCheck("values of every kind persist across reopening") { place in
            try {
                let store = try place.open()
                for (index, text) in CheckTexts.all.enumerated() {
                    try store.set(KVKey<String>("text \(index)"), value: text)
                }
                try store.set(KVKey<Double>("zero"), value: -0.0)
                try store.set(KVKey<CheckProfile>("profile"), value: CheckProfile())
                try store.set(KVKey<Int?>("nil"), value: nil)
                try store.set(KVKey<UInt64>("large"), value: .max)
            }()
            let store = try place.open()
            for (index, text) in CheckTexts.all.enumerated() {
                let read = store.get(KVKey<String>("text \(index)"))
                try expect(read.map { Array($0.utf8) } == Array(text.utf8), "text \(index) has changed")
            }
            try expectEqual(store.get(KVKey<Double>("zero"))?.sign, .minus, "the sign of zero")
            try expectEqual(store.get(KVKey<CheckProfile>("profile")), CheckProfile(), "profile")
            try expect(store.get(KVKey<Int?>("nil")) == .some(.none), "the stored nil is gone")
            try expectEqual(store.get(KVKey<UInt64>("large")), .max, "large")
        },
        ConformanceCheck("the last of several values persists across reopening") { place in
            try {
                let store = try place.open()
                for value in 0..<100 { try store.set(KVKey<Int>("a"), value: value) }
            }()
            try expectEqual(try place.open().get(KVKey<Int>("a")), 99, "get")
        },
        ConformanceCheck(
            "a value of another type is still undecodable after reopening, and is kept", needs: [.typedReads]
        ) { place in
            try place.open().set(KVKey<String>("a"), value: "one")
            let store = try place.open()
            let error = try await expectError(KVStoreError.self, "read") { try store.read(KVKey<Int>("a")) }
            try expectEqual(error.code, .undecodable, "code")
            try expectEqual(store.get(KVKey<String>("a")), "one", "get")
        },
    ]

    private static let keyValueNamesAfterReopening: [ConformanceCheck<KeyValueStoreLocation<any KVStoring>>] = [
        ConformanceCheck("names of every kind persist across reopening") { place in
            try {
                let store = try place.open()
                for (index, name) in hostileNames.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            }()
            let store = try place.open()
            for (index, name) in hostileNames.enumerated() {
                try expectEqual(store.get(KVKey<Int>(name)), index, "get(\(name.escaped)) after reopening")
            }
        },
        ConformanceCheck(
            "names of 1,024 bytes persist across reopening, and so does their removal", needs: [.longestNames]
        ) { place in
            let names = neighboursOfLongestName
            func text(_ name: String) -> String { "get of \(name.utf8.count) bytes that end with \(name.suffix(1))" }
            try {
                let store = try place.open()
                try store.set(KVKey<Int>("a"), value: 1)
                for (index, name) in names.enumerated() { try store.set(KVKey<Int>(name), value: index) }
            }()
            try {
                let store = try place.open()
                for (index, name) in names.enumerated() {
                    try expectEqual(store.get(KVKey<Int>(name)), index, "\(text(name)), after reopening")
                }
                try store.remove(KVKey<Int>(names[0]))
            }()
            let store = try place.open()
            for (index, name) in names.enumerated() {
                try expectEqual(
                    store.get(KVKey<Int>(name)), index == 0 ? nil : index,
                    "\(text(name)), after the name of 1,024 bytes that ends with y was removed, and reopening")
            }
            try expectEqual(store.get(KVKey<Int>("a")), 1, "get(a) after a longest name was removed, and reopening")
        },
        ConformanceCheck("a removed key stays absent after reopening") { place in
            try {
                let store = try place.open()
                for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
                try store.remove(KVKey<Int>("a"))
            }()
            try {
                let store = try place.open()
                try expectEqual(store.contains(KVKey<Int>("a")), false, "contains(a) after remove(a) and reopening")
                try store.remove(KVKey<Int>("c"))
            }()
            let store = try place.open()
            for name in ["a", "c"] {
                try expectEqual(
                    store.contains(KVKey<Int>(name)), false, "contains(\(name)) after remove(\(name)) and reopening")
            }
            try expectEqual(store.get(KVKey<Int>("b")), 1, "get(b) after removals of others and reopening")
        },
        ConformanceCheck("removeAll and the values set after it persist across reopening") { place in
            try {
                let store = try place.open()
                for name in ["a", "b"] { try store.set(KVKey<Int>(name), value: 1) }
                try store.removeAll()
                for name in ["b", "c"] { try store.set(KVKey<Int>(name), value: 2) }
            }()
            let store = try place.open()
            let found = ["a", "b", "c"].map { store.get(KVKey<Int>($0)) }
            try expectEqual(found, [nil, 2, 2], "a, b and c after removeAll(), set(b), set(c) and reopening")
        },
    ]

    private static let keyValueOpenings: [ConformanceCheck<KeyValueStoreLocation<any KVStoring>>] = [
        ConformanceCheck("a store opened many times keeps the writes of each opening") { place in
            // The openings write ever less, so that a count that begins anew is behind that of an earlier opening.
            for opening in 0..<10 {
                let store = try place.open()
                for earlier in 0..<opening {
                    let found = store.get(KVKey<Int>("\(earlier)"))
                    try expectEqual(found, earlier, "get(\(earlier)) in opening \(opening)")
                }
                let expected = opening == 0 ? nil : opening.isMultiple(of: 4) ? nil : opening - 1
                try expectEqual(store.get(KVKey<Int>("a")), expected, "get(a) in opening \(opening)")
                try store.set(KVKey<Int>("\(opening)"), value: opening)
                for value in (0...9 - opening).reversed() { try store.set(KVKey<Int>("a"), value: opening + value) }
                if opening % 4 == 3 { try store.remove(KVKey<Int>("a")) }
            }
        },
        ConformanceCheck("what is written after a refused call persists across reopening") { place in
            let refused = KVKey<CheckUnencodable>("refused")
            let tooLong = KVKey<Int>(String(repeating: "x", count: 1025))
            try {
                let store = try place.open()
                try store.set(KVKey<Int>("before"), value: 1)
                for (number, call) in ["set(refused), which cannot be encoded", "set of 1,025 bytes"].enumerated() {
                    do {
                        if number == 0 {
                            try store.set(refused, value: CheckUnencodable())
                        } else {
                            try store.set(tooLong, value: 1)
                        }
                    } catch {
                        try store.set(KVKey<Int>("after \(number)"), value: number)
                        continue
                    }
                    throw ConformanceViolation("\(call): expected an error, got success")
                }
            }()
            let store = try place.open()
            try expectEqual(
                store.get(KVKey<Int>("before")), 1, "get of a value from before a refused set, after reopening")
            for number in 0...1 {
                try expectEqual(
                    store.get(KVKey<Int>("after \(number)")), number,
                    "get of a value that was set after a refused set, after reopening")
            }
            try expectEqual(store.contains(refused), false, "contains(refused) after reopening")
        },
        ConformanceCheck("the value that a refused set would have replaced persists across reopening") { place in
            let number = KVKey<Int>("replaced")
            for round in 1...2 {
                let store = try place.open()
                try store.set(number, value: round)
                do {
                    try store.set(KVKey<CheckUnencodable>("replaced"), value: CheckUnencodable())
                } catch {
                    try expectEqual(store.get(number), round, "get(replaced) after a refused set(replaced)")
                    if round == 2 { try store.set(KVKey<Int>("other"), value: 1) }
                    continue
                }
                throw ConformanceViolation("set(replaced), which cannot be encoded: expected an error, got success")
            }
            try expectEqual(
                try place.open().get(number), 2, "get(replaced) after a refused set(replaced) and reopening")
        },
        ConformanceCheck("what readers have seen after concurrent writers persists across reopening") { place in
            // A store that orders writes in memory and on disk apart differs only for the last two writes of a key, if one of
            // them is interrupted between both.
            let keys = (0..<500).map { KVKey<Int>("\($0)") }
            // Released before the store is opened again, although the threads may end later.
            let opened = Mutex<(any KVStoring)?>(try place.open())
            try await racing(threads: 4) { writer in
                guard let store = opened.withLock(\.self) else { return }
                for (index, key) in keys.enumerated() {
                    if writer == 2, index.isMultiple(of: 3) {
                        try store.remove(key)
                    } else {
                        try store.set(key, value: writer)
                    }
                    if (index + writer).isMultiple(of: 4) { interruptOthers() }
                }
            }
            let seen = opened.withLock { opened in
                defer { opened = nil }
                return keys.map { opened?.get($0) }
            }
            let store = try place.open()
            for (key, value) in zip(keys, seen) {
                try expectEqual(
                    store.get(key), value, "get(\(key.name)) after three threads have written it, and reopening")
            }
        },
    ]

    private static let rawKeyValuePersistence: [ConformanceCheck<KeyValueStoreLocation<any KVRawStoring>>] = [
        ConformanceCheck("a new place is empty") { place in
            try expectEqual(try place.open().keys(), [], "keys")
            try expectEqual(try place.open().keys(), [], "keys after reopening")
        },
        ConformanceCheck("raw values of 0 bytes to more than 16 MiB persist across reopening, or are refused") {
            place in
            let sizes = [0, 1, 255, 256, 65_535, 65_536, 65_537, 1 << 24 + 1]
            func value(_ size: Int) -> [UInt8] { [UInt8](repeating: UInt8(size % 251), count: size) }
            var refused: Set<Int> = []
            try {
                let store = try place.open()
                for size in sizes {
                    do {
                        try store.setRawValue(value(size), named: "\(size)")
                    } catch let error as KVStoreError where [.valueTooLarge, .storeTooLarge].contains(error.code) {
                        refused.insert(size)
                    }
                }
            }()
            let store = try place.open()
            for size in sizes {
                let found = try store.rawValue(named: "\(size)")
                let expected = refused.contains(size) ? nil : size
                try expectEqual(found?.count, expected, "the number of bytes of rawValue(named: \(size))")
                try expect(
                    found == expected.map(value), "rawValue(named: \(size)): other bytes than those that were set")
            }
        },
        ConformanceCheck("keys lists the names that are left after reopening") { place in
            try {
                let store = try place.open()
                for name in ["a", "b"] + neighboursOfLongestName.suffix(2) {
                    try store.set(KVKey<Int>(name), value: 1)
                }
                try store.remove(KVKey<Int>("a"))
            }()
            let expected = Set(["b"] + neighboursOfLongestName.suffix(2))
            for _ in 1...2 { try expectEqual(Set(try place.open().keys()), expected, "keys() after reopening") }
        },
    ]

    private static let transactionalKeyValuePersistence:
        [ConformanceCheck<KeyValueStoreLocation<any KVTransactionalStoring>>] = [
            ConformanceCheck("revisions continue after reopening") { place in
                let key = KVKey<Int>("a")
                let removed = KVKey<Int>("b")
                let before = try {
                    let store = try place.open()
                    try store.set(key, value: 1)
                    let first = try revision(of: "a", in: store)
                    // The last write is a removal.
                    for _ in 0..<5 { try store.set(removed, value: 1) }
                    let last = try revision(of: "b", in: store)
                    try store.remove(removed)
                    return (first, last)
                }()
                let store = try place.open()
                try expectEqual(try revision(of: "a", in: store), before.0, "the revision of a value that stayed")
                try expect(try store.compareAndSet(key, revision: before.0, value: 2), "the old revision is refused")
                let after = try revision(of: "a", in: store)
                try expect(after > before.1, "revision \(after) after \(before.1)")
            },
            ConformanceCheck("no revision from before a removal matches after reopening") { place in
                let name = "a"
                for remove in ["remove", "removeAll"] {
                    let old = try {
                        let store = try place.open()
                        for value in 1...3 { try store.set(KVKey<Int>(name), value: value) }
                        let old = try revision(of: name, in: store)
                        if remove == "remove" { try store.removeValue(named: name) } else { try store.removeAll() }
                        return old
                    }()
                    let store = try place.open()
                    for value in 4...6 {
                        try store.set(KVKey<Int>(name), value: value)
                        let isSet = try store.compareAndSet(KVKey<Int>(name), revision: old, value: 7)
                        try expectEqual(
                            isSet, false,
                            "compareAndSet(a, revision: \(old)) after \(remove), reopening and \(value - 3) sets")
                    }
                }
            },
            ConformanceCheck("a batch persists across reopening, in order") { place in
                try {
                    let store = try place.open()
                    try store.set(KVKey<Int>("a"), value: 1)
                    try store.batch { batch in
                        batch.remove(KVKey<Int>("a"))
                        try batch.set(KVKey<Int>("b"), value: 1)
                        try batch.set(KVKey<Int>("b"), value: 2)
                        try batch.set(KVKey<String>("c"), value: "three")
                        for name in ["", "d"] { batch.append(.set(name: name, bytes: [])) }
                    }
                }()
                let store = try place.open()
                try expectEqual(try store.keys().sorted(), ["", "b", "c", "d"], "keys")
                for name in ["", "d"] {
                    try expectEqual(
                        try store.rawValue(named: name), [],
                        "rawValue(named: \(name.escaped)) after a batch that sets it to no bytes, and reopening")
                }
                try expectEqual(store.get(KVKey<Int>("b")), 2, "b")
                try expectEqual(store.get(KVKey<String>("c")), "three", "c")
            },
        ]
}

/// A store, and access to the values that it has set aside.
public struct SettingAsideStore<Store: Sendable>: Sendable {
    /// The store.
    public let store: Store

    /// The values set aside so far, each as bytes that contain its encoding.
    public let setAside: @Sendable () throws -> [[UInt8]]

    /// A fresh, empty store that has set nothing aside.
    public init(_ store: Store, setAside: @escaping @Sendable () throws -> [[UInt8]]) {
        self.store = store
        self.setAside = setAside
    }
}

extension ConformanceChecks {
    /// The promises of stores that set unreadable values aside before overwriting them, and of layers over such stores.
    public static let keyValueSettingAside: [ConformanceCheck<SettingAsideStore<any KVRawStoring>>] = [
        ConformanceCheck("set sets aside a value that cannot be read as the new type") { subject in
            let store = subject.store
            try checkSettingAside(store, subject.setAside) { try store.set(KVKey<Int>("a"), value: 1) }
            let replacements: [(text: String, old: () throws -> Void, new: () throws -> Void)] = [
                (
                    "[String] by [Int]", { try store.set(KVKey<[String]>("b"), value: ["old"]) },
                    { try store.set(KVKey<[Int]>("b"), value: [1]) }
                ),
                (
                    "String by [Int]", { try store.set(KVKey<String>("b"), value: "older") },
                    { try store.set(KVKey<[Int]>("b"), value: [2]) }
                ),
                (
                    "[String] by Int", { try store.set(KVKey<[String]>("b"), value: ["oldest"]) },
                    { try store.set(KVKey<Int>("b"), value: 3) }
                ),
                (
                    "Int of version 3 by Int of version 1", { try store.set(thirdVersion("b"), value: 70_000) },
                    { try store.set(KVKey<Int>("b"), value: 4) }
                ),
                (
                    "Int of version 1 by Int of version 3, whose migration from it takes a String",
                    { try store.set(KVKey<Int>("b"), value: 80_000) },
                    { try store.set(thirdVersion("b"), value: 5) }
                ),
            ]
            for (number, (text, old, new)) in replacements.enumerated() {
                try store.removeValue(named: "b")
                try old()
                let bytes = try store.rawValue(named: "b") ?? []
                try new()
                let kept = try subject.setAside()
                try expectEqual(kept.count, number + 2, "how many values were set aside after set replaces \(text)")
                try expect(
                    kept.contains { contains($0, bytes) },
                    "the old value is not among those set aside after set replaces \(text)")
            }
        },
        ConformanceCheck("a value that can be read as the new type is not set aside") { subject in
            let store = subject.store
            for value in 1...3 {
                try store.set(KVKey<Int>("a"), value: value)
                try store.set(KVKey<[String]>("b"), value: ["\(value)"])
                try store.set(KVKey<Int?>("c"), value: value)
                try store.set(KVKey<Int?>("c"), value: nil)
            }
            try store.set(KVKey<Double>("a"), value: 0.5)
            try store.set(KVKey<String>("d"), value: "7")
            for value in 8...9 { try store.set(thirdVersion("d"), value: value) }
            try expectEqual(try subject.setAside().count, 0, "how many values were set aside")
        },
        ConformanceCheck("a removed value is not set aside") { subject in
            let store = subject.store
            try store.set(KVKey<String>("a"), value: "one")
            try store.remove(KVKey<Int>("a"))
            try store.set(KVKey<Int>("a"), value: 1)
            try expectEqual(try subject.setAside().count, 0, "how many values were set aside")
        },
    ]

    /// The promises of transactional stores, those of ``keyValueSettingAside`` included.
    public static let transactionalKeyValueSettingAside:
        [ConformanceCheck<SettingAsideStore<any KVTransactionalStoring>>] =
            keyValueSettingAside.map { check in check.on { SettingAsideStore($0.store, setAside: $0.setAside) } }
            + batchSettingAside

    private static let batchSettingAside: [ConformanceCheck<SettingAsideStore<any KVTransactionalStoring>>] = [
        ConformanceCheck("a batch sets aside a value that cannot be read as the new type") { subject in
            try checkSettingAside(subject.store, subject.setAside) {
                try subject.store.batch { try $0.set(KVKey<Int>("a"), value: 1) }
            }
        },
        ConformanceCheck("an update sets aside a value that cannot be read as the new type") { subject in
            let store = subject.store
            try checkSettingAside(store, subject.setAside) {
                try store.compareAndSet(KVKey<Int>("a"), revision: try store.entry(named: "a")?.revision, value: 1)
            }
        },
        ConformanceCheck("a value that two writers replace at once is set aside once") { subject in
            let store = subject.store
            try store.set(KVKey<String>("a"), value: "precious")
            let meeting = CheckMeeting()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...2 {
                    group.addTask {
                        try CheckMeetingValue.$meeting.withValue(meeting) {
                            try store.set(KVKey<CheckMeetingValue>("a"), value: CheckMeetingValue(number: number))
                        }
                    }
                }
                try await group.waitForAll()
            }
            try expectEqual(
                try subject.setAside().count, 1, "how many values were set aside by two concurrent calls of set")
        },
    ]

    /// Stores a text, overwrites it with a number, and expects the text among the values set aside.
    private static func checkSettingAside(
        _ store: any KVRawStoring, _ setAside: () throws -> [[UInt8]], _ overwrite: () throws -> Void
    ) throws {
        let name = "a"
        try store.set(KVKey<String>(name), value: "precious")
        guard let bytes = try store.rawValue(named: name) else {
            throw ConformanceViolation("there is no raw value of a key that was set")
        }
        try overwrite()
        try expectEqual(store.get(KVKey<Int>(name)), 1, "the new value")
        let kept = try setAside()
        try expectEqual(kept.count, 1, "how many values were set aside")
        try expect(kept.allSatisfy { contains($0, bytes) }, "the value set aside is another one")
    }

    private static func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
        bytes.indices.contains { bytes[$0...].starts(with: part) }
    }
}
