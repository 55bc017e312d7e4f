public import ForgeKVStore

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
            try checkSettingAside(subject.store, subject.setAside) { try subject.store.set(KVKey<Int>("a"), value: 1) }
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
