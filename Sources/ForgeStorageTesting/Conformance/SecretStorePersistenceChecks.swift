public import ForgeCrypt

/// A place where secrets are kept, initially empty, which stores open, and the conditions that checks can bring it into.
///
/// A check whose condition is missing is reported as not applicable, or as violated where its capability was declared.
public struct SecretStoreLocation: Sendable {
    /// Opens the store, also while another one is open, as another process or object does.
    public let open: @Sendable () throws -> any CryptStoring

    /// Leaves less than 64 KiB free on the device, for the check that needs ``ConformanceCapability/limitedSpace``.
    public var fillDevice: (@Sendable () throws -> Void)?

    /// Makes the device read-only, for the check that needs ``ConformanceCapability/readOnlyDevice``.
    public var makeReadOnly: (@Sendable () throws -> Void)?

    /// Makes reads of the device fail, or lets them succeed again, for the check that needs
    /// ``ConformanceCapability/failingDevice``.
    public var setFailing: (@Sendable (_ fails: Bool) throws -> Void)?

    /// Makes another user the owner of the place, such as the directory of the store, for the check that needs
    /// ``ConformanceCapability/foreignOwner``.
    public var giveAway: (@Sendable () throws -> Void)?

    /// Creates a location without conditions.
    public init(open: @escaping @Sendable () throws -> any CryptStoring) {
        self.open = open
    }
}

extension ConformanceSuite where Subject == SecretStoreLocation {
    /// The promises of a persistent secret store; some need ``ConformanceCapability/keyListing`` or
    /// ``ConformanceCapability/creationIfAbsent``.
    public static var secretStorePersistence: Self {
        Self("store of secrets, reopened", ConformanceChecks.secretStorePersistence)
    }
}

extension ConformanceChecks {
    /// The promises of a secret store that keeps its secrets. Each check needs a new, empty location.
    public static let secretStorePersistence: [ConformanceCheck<SecretStoreLocation>] = [
        ConformanceCheck("a new location has no secrets, whatever was called there") { location in
            for _ in 0..<2 {
                let store = try location.open()
                try store.deleteAll()
                try store.delete(key("a"))
                try expectEqual(try store.get(key("a")), nil, "get(a)")
                try expect(try !store.contains(key("a")), "contains(a): expected false")
            }
        },
        ConformanceCheck("secrets of every size survive reopening") { location in
            let sizes = [0, 1, 15, 16, 17, 255, 256, 4_095, 4_097, 70_000]
            let store = try location.open()
            for size in sizes { try store.set(text(size), for: key("size \(size)")) }
            for _ in 0..<2 {
                let reopened = try location.open()
                for size in sizes {
                    let value = try reopened.get(key("size \(size)"))
                    try expect(value == text(size), "get(size \(size)): expected the value, got \(value?.count ?? -1)")
                }
            }
        },
        ConformanceCheck("names survive reopening byte for byte, in order", needs: [.keyListing]) { location in
            let names = ["a", "a.b", "A", "\u{E9}", "e\u{301}", "/", "..", String(repeating: "n", count: 255)]
            let store = try location.open()
            for name in names { try store.set("of " + name, for: key(name)) }
            let reopened = try location.open()
            for name in names { try expectEqual(try reopened.get(key(name)), "of " + name, "get(\(name))") }
            let expected = names.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
            try expectEqual(try reopened.keys().map { Array($0.utf8) }, expected, "keys()")
        },
        ConformanceCheck("the last of several writes of a name survives reopening") { location in
            for value in ["a longer value", "short", "another value that is longer than the first"] {
                let store = try location.open()
                try store.set(value, for: key("a"))
                try store.set("kept", for: key("b"))
                let reopened = try location.open()
                try expectEqual(try reopened.get(key("a")), value, "get(a)")
                try expectEqual(try reopened.get(key("b")), "kept", "get(b)")
            }
        },
        ConformanceCheck("a deleted secret stays deleted after reopening, and the others are kept") { location in
            let store = try location.open()
            for name in ["a", "b", "c"] { try store.set("of " + name, for: key(name)) }
            try store.delete(key("b"))
            let reopened = try location.open()
            try expectEqual(try reopened.get(key("b")), nil, "get(b)")
            for name in ["a", "c"] { try expectEqual(try reopened.get(key(name)), "of " + name, "get(\(name))") }
        },
        ConformanceCheck("deleteAll is kept after reopening, and the location can be filled again") { location in
            for round in 0..<2 {
                let store = try location.open()
                for name in ["a", "b"] { try store.set("\(round)", for: key(name)) }
                try store.deleteAll()
                let reopened = try location.open()
                for name in ["a", "b"] { try expectEqual(try reopened.get(key(name)), nil, "get(\(name))") }
                try reopened.set("new", for: key("a"))
                try expectEqual(try location.open().get(key("a")), "new", "get(a) of another store")
            }
        },
        ConformanceCheck("a store sees what another one over the same location has written and deleted") { location in
            let (first, second) = (try location.open(), try location.open())
            for round in 0..<3 {
                try first.set("first \(round)", for: key("a"))
                try expectEqual(try second.get(key("a")), "first \(round)", "get(a) of the second store")
                try second.set("second \(round)", for: key("a"))
                try expectEqual(try first.get(key("a")), "second \(round)", "get(a) of the first store")
                try second.delete(key("a"))
                try expectEqual(try first.get(key("a")), nil, "get(a) of the first store after delete(a)")
            }
        },
        ConformanceCheck("a store that is opened after a write sees the later ones of another store") { location in
            let first = try location.open()
            for name in ["a", "b"] { try first.set("before", for: key(name)) }
            let second = try location.open()
            try expectEqual(try second.get(key("a")), "before", "get(a) of the second store")
            try first.set("after", for: key("a"))
            try first.delete(key("b"))
            try expectEqual(try second.get(key("a")), "after", "get(a) of the second store after set(a) of the first")
            try expectEqual(try second.get(key("b")), nil, "get(b) of the second store after delete(b) of the first")
        },
        ConformanceCheck("only one of two stores creates a secret", needs: [.creationIfAbsent]) { location in
            let (first, second) = (try location.open(), try location.open())
            try expect(try first.createIfAbsent("first", for: key("a")), "createIfAbsent of the first: expected true")
            try expect(
                try !second.createIfAbsent("second", for: key("a")), "createIfAbsent of the second: expected false")
            try expectEqual(try second.get(key("a")), "first", "get(a)")
        },
        ConformanceCheck("concurrent writes of several stores over one location are all kept") { location in
            let stores = try (0..<4).map { _ in try location.open() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (writer, store) in stores.enumerated() {
                    group.addTask {
                        for number in 0..<10 { try store.set("\(number)", for: key("\(writer).\(number)")) }
                    }
                }
                try await group.waitForAll()
            }
            let store = try location.open()
            for writer in 0..<4 {
                for number in 0..<10 {
                    let name = "\(writer).\(number)"
                    try expectEqual(try store.get(key(name)), "\(number)", "get(\(name))")
                }
            }
        },
    ]

    private static func key(_ name: String) -> CryptKey<String> { CryptKey(key: name) }

    private static func text(_ count: Int) -> String { String(repeating: "\u{7A}", count: count) }
}
