import ForgeCoding
public import ForgeCrypt
import Foundation

/// A place where secrets are kept, initially empty, which stores open, and the conditions that checks can bring it into.
///
/// A check whose condition is missing is reported as not applicable, or as violated where its capability was declared.
public struct SecretStoreLocation: Sendable {
    /// Opens the store, also while another one is open, as another process or object does.
    public let open: @Sendable () throws -> any CryptStoring

    /// Leaves less than 64 KiB free on the device, so that a value of 100,000 bytes does not fit, for the checks that need
    /// ``ConformanceCapability/limitedSpace``.
    public var fillDevice: (@Sendable () throws -> Void)?

    /// Makes the device read-only, for the check that needs ``ConformanceCapability/readOnlyDevice``.
    public var makeReadOnly: (@Sendable () throws -> Void)?

    /// Makes reads of the device fail, or lets them succeed again, for the check that needs
    /// ``ConformanceCapability/failingDevice``. Writes and opening may fail too, but then no check sees a write that takes
    /// what it could not read for absent: make writes succeed where that is possible.
    public var setFailing: (@Sendable (_ fails: Bool) throws -> Void)?

    /// Makes another user the owner of the place, such as the directory of the store, or gives other users access to
    /// it, for the check that needs ``ConformanceCapability/foreignOwner``. Opening the store there may throw.
    ///
    /// If the store refuses both, run the check with one location for each.
    public var giveAway: (@Sendable () throws -> Void)?

    /// Creates a location without conditions.
    public init(open: @escaping @Sendable () throws -> any CryptStoring) {
        self.open = open
    }
}

extension ConformanceSuite where Subject == SecretStoreLocation {
    /// The promises of a persistent secret store; some need ``ConformanceCapability/keyListing``,
    /// ``ConformanceCapability/rawValues`` or ``ConformanceCapability/creationIfAbsent``.
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
                    let found = value.map { "\($0.utf8.count) bytes" } ?? "nil"
                    try expect(value == text(size), "get(size \(size)): expected the \(size) bytes, got \(found)")
                }
            }
        },
        ConformanceCheck("names survive reopening byte for byte") { location in
            let (store, names) = (try location.open(), SecretSamples.names)
            for (index, name) in names.enumerated() { try store.set("\(index)", for: key(name)) }
            let reopened = try location.open()
            for (index, name) in names.enumerated() {
                try expectEqual(try reopened.get(key(name)), "\(index)", "get(\(name.escaped))")
            }
        },
        ConformanceCheck("keys lists the names in byte order after reopening", needs: [.keyListing]) { location in
            let store = try location.open()
            for name in SecretSamples.names { try store.set("of " + name, for: key(name)) }
            let names = try location.open().keys()
            let expected = SecretSamples.names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            try expect(
                names.map { Array($0.utf8) } == expected.map { Array($0.utf8) },
                "keys(): expected \(shown(expected)), got \(shown(names))")
        },
        ConformanceCheck("values of every kind survive reopening, also a stored nil") { location in
            let (none, empty) = (CryptKey<String?>(key: "nil"), CryptKey<Data>(key: "no bytes"))
            let (number, account) = (CryptKey<Double>(key: "number"), CryptKey<SecretSamples.Account>(key: "account"))
            let ada = SecretSamples.Account(name: "Ada", tokens: ["a": [1, 2]], role: .member(level: 3), nickname: nil)
            let store = try location.open()
            try store.set(nil, for: none)
            try store.set(Data(), for: empty)
            try store.set(0.1, for: number)
            try store.set(ada, for: account)
            let reopened = try location.open()
            guard let kept = try reopened.get(none) else {
                throw ConformanceViolation("get(nil): expected a stored nil, got no value")
            }
            try expectEqual(kept, nil, "get(nil)")
            try expectEqual(try reopened.get(empty), Data(), "get(no bytes)")
            try expectEqual(try reopened.get(number), 0.1, "get(number)")
            try expectEqual(try reopened.get(account), ada, "get(account)")
        },
        ConformanceCheck("raw values of 0 bytes to 16 MiB survive reopening", needs: [.rawValues]) { location in
            let values = [[], [0xFF], [UInt8](repeating: 1, count: 16 << 20)]
            let store = try location.open()
            for bytes in values {
                try store.setRawValue(bytes, named: "\(bytes.count)", accessibility: .afterFirstUnlock)
            }
            let reopened = try location.open()
            for bytes in values {
                let found = try reopened.rawValue(named: "\(bytes.count)")
                let size = found.map { "\($0.count)" } ?? "nil"
                try expect(
                    found == bytes, "rawValue(named: \(bytes.count)): expected these \(bytes.count) bytes, got \(size)")
            }
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
        ConformanceCheck("the secret that a refused set would have replaced survives reopening") { location in
            let store = try location.open()
            try store.set("kept", for: key("replaced"))
            for name in ["replaced", "new"] {
                let refusing = CryptKey<SecretSamples.Refusing>(key: name)
                do { try store.set(SecretSamples.Refusing(text: "refused"), for: refusing) } catch { continue }
                throw ConformanceViolation("set(\(name)), which cannot be encoded: expected an error, got success")
            }
            for (opening, reopened) in [store, try location.open()].enumerated() {
                let after = "after a refused set" + (opening == 0 ? "" : " and reopening")
                try expectEqual(try reopened.get(key("replaced")), "kept", "get(replaced) \(after)")
                try expectEqual(try reopened.contains(key("new")), false, "contains(new) \(after)")
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
            // Files of the same size, with other content.
            for value in ["later", "newer"] {
                try first.deleteAll()
                try first.set(value, for: key("a"))
                try expectEqual(
                    try second.get(key("a")), value,
                    "get(a) of the second store, which has read another value of as many bytes, after deleteAll() and set(a)"
                )
            }
        },
        ConformanceCheck("a store acts on what another one has changed since its own last call") { location in
            try expectTurns(location, nil)
        },
        ConformanceCheck(
            "a store lists what another one has changed since its own last call", needs: [.keyListing]
        ) { location in
            try expectTurns(location, .keyListing)
        },
        ConformanceCheck(
            "the calls for raw values act on what another store has changed, and others on what they change",
            needs: [.rawValues]
        ) { location in
            try expectTurns(location, .rawValues)
        },
        ConformanceCheck(
            "createIfAbsent acts on what another store has changed, and others on what it creates",
            needs: [.creationIfAbsent]
        ) { location in
            try expectTurns(location, .creationIfAbsent)
        },
        ConformanceCheck("only one of two stores creates a secret", needs: [.creationIfAbsent]) { location in
            try await expectOneCreator(of: (try location.open(), try location.open()))
        },
        ConformanceCheck("concurrent changes of two stores over one location are all kept") { location in
            try await expectIndependence(of: (try location.open(), try location.open()), .typed)
        },
        ConformanceCheck("deleteAll removes every secret, also while another store changes others") { location in
            try await expectDeletion(by: (try location.open(), try location.open()))
        },
    ].map { $0.on(\.traced) }

    private static func key(_ name: String) -> CryptKey<String> { CryptKey(key: name) }

    private static func text(_ count: Int) -> String { String(repeating: "\u{7A}", count: count) }

    /// Expects the effect of each call of a store right after each change by another one, where the first has set or looked
    /// for the secret before; then expects that the second one, and a third that is opened now, read the result. Only pairs
    /// with a call that needs `capability`, and none that needs another, are made; if it is nil, the pairs of required calls.
    private static func expectTurns(_ location: SecretStoreLocation, _ capability: ConformanceCapability?) throws {
        func isPart(_ call: SecretCall) -> Bool { call.needs == nil || call.needs == capability }
        let reads = SecretCall.reads(["a", "new"]).filter(isPart)
        let changes = (SecretCall.changes("1") + [.set("a", "2")]).filter(isPart)
        var values: SecretCall.Values = [:]
        for isPresent in [true, false] {
            for change in changes {
                for call in changes + reads where capability == nil || [change.needs, call.needs].contains(capability) {
                    let (first, second) = (try location.open(), try location.open())
                    try first.deleteAll()
                    values = [:]
                    var before = "after deleteAll()"
                    if isPresent {
                        let set = SecretCall.set("a", "1")
                        try set.expectEffect(on: &values, in: first, before)
                        before = "after \(set.text)"
                    }
                    for read in reads { try read.expectEffect(on: &values, in: first, before) }
                    try change.expectEffect(on: &values, in: second, "by another store, \(before)")
                    before += " and \(change.text) by another store"
                    try call.expectEffect(on: &values, in: first, before)
                    before += " and \(call.text)"
                    for read in reads {
                        try read.expectEffect(on: &values, in: second, "by the other store, \(before)")
                    }
                    let third = try location.open()
                    for read in reads { try read.expectEffect(on: &values, in: third, "by a store opened \(before)") }
                }
            }
        }
    }
}

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
    ///
    /// Every call is made under each condition; those beyond the required ones only if the store supports them.
    public static let secretStoreConditions: [ConformanceCheck<SecretStoreLocation>] = [
        Check("a secret that does not fit on a full device is refused, and the others are kept", needs: [.limitedSpace])
        {
            location in
            let (store, values) = (try filledStore(location), filled)
            try condition(location.fillDevice, "fillDevice")()
            let large = String(repeating: "x", count: 100_000)
            for call in SecretCall.changes(large) where call.operation == .set && call.changes(values) {
                let circumstance = "with 100,000 bytes on a full device"
                let error = try expectFailure(of: call, store, [.noSpace], circumstance)
                try expect(
                    error.code == .unsupported || error.isOutOfSpace,
                    "\(call.text) \(circumstance): expected isOutOfSpace, got \(error)")
                try expectKept(values, location, store, "\(call.text) \(circumstance)")
            }
        },
        Check("the first secret of a location is refused if it does not fit on a full device", needs: [.limitedSpace]) {
            location in
            try condition(location.fillDevice, "fillDevice")()
            let large = String(repeating: "x", count: 100_000)
            let store = try location.open()
            for call in SecretCall.changes(large) where call.operation == .set {
                let circumstance = "with 100,000 bytes on a full device, where nothing was stored before"
                let error = try expectFailure(of: call, store, [.noSpace], circumstance)
                try expect(
                    error.code == .unsupported || error.isOutOfSpace,
                    "\(call.text) \(circumstance): expected isOutOfSpace, got \(error)")
                try expectKept([:], location, store, "\(call.text) \(circumstance)")
            }
        },
        Check("on a read-only device secrets are read, and every change is an error", needs: [.readOnlyDevice]) {
            location in
            let (store, values) = (try filledStore(location), filled)
            try condition(location.makeReadOnly, "makeReadOnly")()
            for store in [store, try location.open()] {
                for call in SecretCall.changes("newer") where call.changes(values) {
                    try expectFailure(of: call, store, [.unavailable], "on a read-only device")
                    try expectKept(values, location, store, "\(call.text) on a read-only device")
                }
            }
        },
        Check("a secret that cannot be read is an error and never absent, and is kept", needs: [.failingDevice]) {
            location in
            let setFailing = try condition(location.setFailing, "setFailing")
            for change in SecretCall.changes("newer") {
                var values = filled
                // It may have the secrets in memory.
                var stores = [try filledStore(location)]
                // It has read nothing before the failures.
                stores.append(try location.open())
                try setFailing(true)
                do {
                    stores.append(try location.open())
                } catch let error as CryptError {
                    // It may read when it is opened.
                    try expectCode(of: error, [.unavailable], "open() on a failing device")
                }
                for store in stores.reversed() {
                    for call in SecretCall.reads(["a", "b", "new"]) + [change] {
                        try expectEffectOrFailure(of: call, on: &values, in: store)
                    }
                }
                try setFailing(false)
                for store in stores {
                    try expectKept(values, location, store, "\(change.text) on a device that failed")
                }
                let store = try location.open()
                try store.set("newer", for: CryptKey(key: "a"))
                values["a"] = "newer"
                try expectKept(values, location, store, "set(a) after the failures")
                try store.deleteAll()
            }
        },
        Check("a place that belongs to another user is not written to", needs: [.foreignOwner]) { location in
            let (store, values) = (try filledStore(location), filled)
            try condition(location.giveAway, "giveAway")()
            let codes: [FailureKind] = [.insecureFile, .unavailable]
            var stores = [store]
            do {
                stores.append(try location.open())
            } catch let error as CryptError {
                try expectCode(of: error, codes, "open() in a place of another user")
            }
            for store in stores {
                for call in SecretCall.changes("newer") where call.changes(values) {
                    try expectFailure(of: call, store, codes, "in a place of another user")
                }
            }
        },
    ].map { $0.on(\.traced) }

    private typealias Check = ConformanceCheck<SecretStoreLocation>

    /// A group of codes.
    private enum FailureKind: String {
        case noSpace, insecureFile, unavailable

        func contains(_ code: CryptError.Code) -> Bool { caseName(of: code) == rawValue }
    }

    private static let filled = ["a": "old", "b": "old"]

    /// A store with ``filled``.
    @discardableResult
    private static func filledStore(_ location: SecretStoreLocation) throws -> any CryptStoring {
        let store = try location.open()
        for (name, value) in filled { try store.set(value, for: CryptKey(key: name)) }
        return store
    }

    /// Expects an error with one of these codes, and the operation and name of the call.
    @discardableResult
    private static func expectFailure(
        of call: SecretCall, _ store: any CryptStoring, _ kinds: [FailureKind], _ circumstance: String,
        file: StaticString = #fileID, line: UInt = #line
    ) throws -> CryptError {
        let result: String
        do {
            result = try call.perform(store)
        } catch let error as CryptError {
            try expectError(error, of: call, kinds, circumstance, file: file, line: line)
            return error
        }
        throw ConformanceViolation(
            "\(call.text) \(circumstance): expected a CryptError, got \(result)", file: file, line: line)
    }

    /// Expects the effect of a call, or an error.
    private static func expectEffectOrFailure(
        of call: SecretCall, on values: inout SecretCall.Values, in store: any CryptStoring,
        file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let circumstance = "on a failing device"
        do {
            try call.expectEffect(on: &values, in: store, circumstance, file: file, line: line)
        } catch let error as CryptError {
            try expectError(error, of: call, [.unavailable], circumstance, file: file, line: line)
        }
    }

    private static func expectError(
        _ error: CryptError, of call: SecretCall, _ kinds: [FailureKind], _ circumstance: String, file: StaticString,
        line: UInt
    ) throws {
        if call.needs != nil, error.code == .unsupported { return }
        let what = "\(call.text) \(circumstance)"
        try expectCode(of: error, kinds, what, file: file, line: line)
        try expect(
            error.operation == call.operation && error.key == call.name,
            "\(what): expected an error with the operation .\(call.operation) and the key \(call.name ?? "nil"), "
                + "got .\(error.operation) and \(error.key ?? "nil"): \(error)", file: file, line: line)
    }

    private static func expectCode(
        of error: CryptError, _ kinds: [FailureKind], _ what: String, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let expected = kinds.map { ".\($0.rawValue)" }.joined(separator: " or ")
        try expect(
            kinds.contains { $0.contains(error.code) },
            "\(what): expected an error with the code \(expected), got .\(caseName(of: error.code)): \(error)",
            file: file, line: line)
    }

    /// Expects that a store, and one that is opened now, have exactly these values.
    private static func expectKept(
        _ values: SecretCall.Values, _ location: SecretStoreLocation, _ store: any CryptStoring, _ call: String
    ) throws {
        var values = values
        for (which, store) in [("after", store), ("by a store opened after", try location.open())] {
            for read in SecretCall.reads(["a", "b", "new"]) {
                do {
                    try read.expectEffect(on: &values, in: store, "\(which) \(call)")
                } catch let error as CryptError where read.needs != nil && error.code == .unsupported {
                    continue
                }
            }
        }
    }
}
