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
                try filledStore(location)
                try setFailing(true)
                do {
                    // A store that was opened before may have the secrets in memory.
                    let store = try location.open()
                    for call in SecretCall.reads(["a", "b", "new"]) + [change] {
                        try expectEffectOrFailure(of: call, on: &values, in: store)
                    }
                } catch let error as CryptError {
                    // It may read when it is opened.
                    try expectCode(of: error, [.unavailable], "open() on a failing device")
                }
                try setFailing(false)
                let store = try location.open()
                try expectKept(values, location, store, "\(change.text) on a failing device")
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
    ]

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
