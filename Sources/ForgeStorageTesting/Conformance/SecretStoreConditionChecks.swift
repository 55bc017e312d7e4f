import ForgeCrypt

extension ConformanceCapability {
    /// The place of a store can be given to another user (``SecretStoreLocation/giveAway``).
    public static let foreignOwner = ConformanceCapability("a place that another user can own")
}

extension ConformanceSuite where Subject == SecretStoreLocation {
    /// The promises of a secret store on a full, read-only or failing device, and in a place of another user. Each check
    /// needs a capability.
    public static var secretStoreConditions: Self {
        Self("store of secrets under conditions", ConformanceChecks.secretStoreConditions)
    }
}

extension ConformanceChecks {
    /// The promises of a secret store under conditions that the location provides. Each check needs a new, empty location.
    public static let secretStoreConditions: [ConformanceCheck<SecretStoreLocation>] = [
        Check("a secret that does not fit on a full device is refused, and the others are kept", needs: [.limitedSpace])
        {
            location in
            let store = try location.open()
            for name in ["a", "b"] { try store.set("old", for: key(name)) }
            try condition(location.fillDevice, "fillDevice")()
            let large = String(repeating: "x", count: 100_000)
            for name in ["a", "new"] {
                let error = try await expectError(CryptError.self, "set(\(name)) of 100,000 bytes on a full device") {
                    try store.set(large, for: key(name))
                }
                try expectEqual(error.code, .noSpace, "the code of \(error)")
                try expectEqual(error.operation, .set, "the operation of \(error)")
                try expectEqual(error.key, name, "the name of \(error)")
                try expectKept(["a": "old", "b": "old", "new": nil], location, store, "set(\(name)) on a full device")
            }
        },
        Check("on a read-only device secrets are read, and every change is an error", needs: [.readOnlyDevice]) {
            location in
            let store = try location.open()
            for name in ["a", "b"] { try store.set("old", for: key(name)) }
            try condition(location.makeReadOnly, "makeReadOnly")()
            for store in [store, try location.open()] {
                for (call, change) in changes {
                    try await expectError(CryptError.self, "\(call) on a read-only device") { try change(store) }
                    try expectKept(
                        ["a": "old", "b": "old", "new": nil], location, store, "\(call) on a read-only device")
                }
            }
        },
        Check("a secret that cannot be read is an error and never absent, and is kept", needs: [.failingDevice]) {
            location in
            let setFailing = try condition(location.setFailing, "setFailing")
            for name in ["a", "b"] { try location.open().set("old", for: key(name)) }
            var expected: [String: String?] = ["a": "old", "b": "old", "new": nil]
            try setFailing(true)
            do {
                // A store that was opened before may have the secrets in memory.
                try useOnFailingDevice(try location.open(), &expected)
            } catch is CryptError {
                // It may read when it is opened.
            }
            try setFailing(false)
            let store = try location.open()
            try expectKept(expected, location, store, "calls on a failing device")
            try store.set("newer", for: key("a"))
            try expectKept(["a": "newer"], location, store, "set(a) after the failures")
        },
        Check("a place that belongs to another user is not written to", needs: [.foreignOwner]) { location in
            let store = try location.open()
            for name in ["a", "b"] { try store.set("old", for: key(name)) }
            try condition(location.giveAway, "giveAway")()
            for store in [store, try location.open()] {
                for (call, change) in changes {
                    let error = try await expectError(CryptError.self, "\(call) in a place of another user") {
                        try change(store)
                    }
                    try expectEqual(error.code, .insecureFile, "the code of \(error)")
                }
            }
        },
    ]

    private typealias Check = ConformanceCheck<SecretStoreLocation>

    private static func key(_ name: String) -> CryptKey<String> { CryptKey(key: name) }

    private static let changes: [(call: String, body: @Sendable (any CryptStoring) throws -> Void)] = [
        ("set(a)", { try $0.set("new", for: key("a")) }), ("set(new)", { try $0.set("new", for: key("new")) }),
        ("delete(a)", { try $0.delete(key("a")) }), ("deleteAll()", { try $0.deleteAll() }),
    ]

    /// Calls a store whose reads fail; each call throws or has its effect.
    private static func useOnFailingDevice(_ store: any CryptStoring, _ expected: inout [String: String?]) throws {
        do {
            try expectEqual(try store.get(key("a")), "old", "get(a) on a failing device")
        } catch is CryptError {}
        do {
            try expectEqual(try store.contains(key("a")), true, "contains(a) on a failing device")
        } catch is CryptError {}
        for (call, change) in changes {
            do {
                try change(store)
            } catch is CryptError {
                continue
            }
            switch call {
            case "set(a)": expected["a"] = .some("new")
            case "set(new)": expected["new"] = .some("new")
            case "delete(a)": expected["a"] = .some(nil)
            default: expected = ["a": nil, "b": nil, "new": nil]
            }
        }
    }

    /// Expects these values from a store and from one that is opened now.
    private static func expectKept(
        _ values: [String: String?], _ location: SecretStoreLocation, _ store: any CryptStoring, _ call: String
    ) throws {
        for (which, store) in [("", store), (" of a store opened now", try location.open())] {
            for (name, value) in values.sorted(by: { $0.key < $1.key }) {
                try expectEqual(try store.get(key(name)), value, "get(\(name))\(which) after \(call)")
            }
        }
    }
}
