public import ForgeStorage

/// The user for the checks of session storages.
public struct ConformanceUser: Codable, Hashable, Sendable {
    public var id: String
    public var name: String
    public var email: String?

    /// Creates a user.
    public init(id: String, name: String, email: String? = nil) {
        self.id = id
        self.name = name
        self.email = email
    }
}

extension ConformanceChecks {
    /// The promises of a session storage.
    public static let sessionStorage: [ConformanceCheck<any SessionStorage<ConformanceUser>>] = [
        ConformanceCheck("a new storage is empty") { storage in
            try expectEqual(try storage.loadUser(), nil, "the user of a new storage")
        },
        ConformanceCheck("a saved user can be loaded repeatedly") { storage in
            try storage.saveUser(john)
            try expectEqual(try storage.loadUser(), john, "the user, the first time")
            try expectEqual(try storage.loadUser(), john, "the user, the second time")
        },
        ConformanceCheck("saving replaces the previous user") { storage in
            try storage.saveUser(john)
            try storage.saveUser(jane)
            try expectEqual(try storage.loadUser(), jane, "the user after the second save")
        },
        ConformanceCheck("clearing removes the user") { storage in
            try storage.saveUser(john)
            try storage.clearUser()
            try expectEqual(try storage.loadUser(), nil, "the user after clearing")
        },
        ConformanceCheck("clearing an empty storage succeeds") { storage in
            try storage.clearUser()
            try storage.clearUser()
            try expectEqual(try storage.loadUser(), nil, "the user after clearing twice")
        },
        ConformanceCheck("a user can be saved after clearing") { storage in
            try storage.saveUser(john)
            try storage.clearUser()
            try storage.saveUser(jane)
            try expectEqual(try storage.loadUser(), jane, "the user after clearing and saving")
        },
        ConformanceCheck("nil and empty fields are preserved") { storage in
            let user = ConformanceUser(id: "", name: "", email: nil)
            try storage.saveUser(user)
            try expectEqual(try storage.loadUser(), user, "the user of empty parts")
        },
        ConformanceCheck("any text round-trips byte for byte") { storage in
            for name in [
                "Jos\u{e9}", "Jose\u{301}", "👩‍👩‍👧‍👦", "\0\u{1}\u{7f}\n\"\\", String(repeating: "ab\u{1F600}", count: 20_000),
            ] {
                try storage.saveUser(ConformanceUser(id: "1", name: name))
                let loaded = try storage.loadUser()
                try expect(
                    loaded?.name.utf8.elementsEqual(name.utf8) ?? false,
                    "a name of \(name.utf8.count) bytes was changed")
            }
        },
        ConformanceCheck("a session manager and its storage see the same user") { storage in
            try checkManager(over: storage)
        },
    ]

    private static let john = ConformanceUser(id: "123", name: "John Doe", email: "john@example.com")
    private static let jane = ConformanceUser(id: "456", name: "Jane Roe", email: "jane@example.com")

    private static func checkManager<Storage: SessionStorage>(over storage: Storage) throws
    where Storage.User == ConformanceUser {
        // Only one thread uses both.
        nonisolated(unsafe) let shared = storage
        let manager = SessionManager(storage: shared)
        try expectEqual(try manager.loadUser(), nil, "the manager's user at first")
        try manager.saveUser(john)
        try expectEqual(try storage.loadUser(), john, "the storage's user after the manager saved one")
        try storage.saveUser(jane)
        try expectEqual(try manager.loadUser(), jane, "the manager's user after the storage saved another")
        try manager.clearUser()
        try expectEqual(try storage.loadUser(), nil, "the storage's user after the manager cleared it")
    }
}
