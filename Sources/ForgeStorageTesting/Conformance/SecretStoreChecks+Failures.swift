import ForgeCoding
import ForgeCrypt
import Foundation

extension ConformanceChecks {
    static let secretFailures: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("a value of another type is undecodable, not absent, and is kept") { store in
            try store.set("text", for: secretToken)
            try expectSecretError(.undecodable, .get, secretToken.key, "get(auth.access as Account) of a String") {
                try store.get(CryptKey<SecretSamples.Account>(key: secretToken.key))
            }
            try expectEqual(try store.get(secretToken), "text", "get(auth.access) after")
            let number = CryptKey<Int>(key: secretToken.key)
            try store.set(1, for: number)
            try expectSecretError(.undecodable, .get, secretToken.key, "get(auth.access as String) of an Int") {
                try store.get(secretToken)
            }
            try expectEqual(try store.get(number), 1, "get(auth.access as Int)")
            try store.set(nil, for: CryptKey<String?>(key: secretToken.key))
            try expectSecretError(.undecodable, .get, secretToken.key, "get(auth.access as String) of a stored nil") {
                try store.get(secretToken)
            }
        },
        ConformanceCheck("a value that cannot be encoded is refused, and the old one is kept") { store in
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            try store.set(SecretSamples.Refusing(text: "fine"), for: key)
            try expectSecretError(.unencodable, .set, key.key, "set(refusing)") {
                try store.set(SecretSamples.Refusing(text: marker), for: key)
            }
            try expectEqual(try store.get(key)?.text, "fine", "get(refusing) after the refused set")
            try expectEqual(try store.contains(key), true, "contains(refusing) after the refused set")
        },
        ConformanceCheck("a value that is nested too deeply is refused, and the old one is kept") { store in
            let key = CryptKey<SecretSamples.Nest>(key: "nest")
            try store.set(SecretSamples.Nest(depth: 20), for: key)
            do {
                try store.set(SecretSamples.Nest(depth: 65), for: key)
                throw ConformanceViolation("set(nest) of 65 nested values: expected a CryptError, got success")
            } catch let error as CryptError {
                try expect(
                    error.code == .unencodable || error.code == .tooLarge,
                    "set(nest) of 65 nested values: expected .unencodable or .tooLarge, got \(error)")
                try expect(
                    error.operation == .set && error.key == "nest", "the operation and the key of the error: \(error)")
            }
            try expectEqual(try store.get(key)?.depth, 20, "get(nest) after the refused set")
        },
        ConformanceCheck("a value of more than 16 MiB is refused, and the old one is kept") { store in
            let key = CryptKey<Data>(key: "large")
            try store.set(Data("small".utf8), for: key)
            try expectSecretError(.tooLarge, .set, key.key, "set(large) of more than 16 MiB") {
                try store.set(SecretSamples.tooLarge, for: key)
            }
            try expectEqual(try store.get(key), Data("small".utf8), "get(large) after the refused set")
        },
        ConformanceCheck("no error shows a value, however it is printed") { store in
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            let unencodable = try expectSecretError(.unencodable, .set, key.key, "set(refusing)") {
                try store.set(SecretSamples.Refusing(text: marker), for: key)
            }
            try expectNoMarker(in: unencodable, "the error of set(refusing), .unencodable,")
            try store.set(marker, for: secretToken)
            let asChoice = try expectSecretError(.undecodable, .get, secretToken.key, "get(auth.access as Choice)") {
                try store.get(CryptKey<SecretSamples.Choice>(key: secretToken.key))
            }
            try expectNoMarker(in: asChoice, "the error of get(auth.access as Choice), .undecodable,")
            let asQuoting = try expectSecretError(.undecodable, .get, secretToken.key, "get(auth.access as Quoting)") {
                try store.get(CryptKey<SecretSamples.Quoting>(key: secretToken.key))
            }
            try expectNoMarker(in: asQuoting, "the error of get(auth.access as Quoting), .undecodable,")
        },
        ConformanceCheck("no error shows a coding key that comes from a value") { store in
            let wallet = CryptKey<SecretSamples.Wallet<String>>(key: "wallet")
            try store.set(SecretSamples.Wallet(name: marker, content: "text"), for: wallet)
            let undecodable = try expectSecretError(.undecodable, .get, "wallet", "get(wallet as Wallet<Int>)") {
                try store.get(CryptKey<SecretSamples.Wallet<Int>>(key: "wallet"))
            }
            try expectNoMarker(in: undecodable, "the error of get(wallet as Wallet<Int>), .undecodable,")
            let pointer = CryptKey<SecretSamples.Pointer>(key: "pointer")
            try store.set(SecretSamples.Pointer(target: marker), for: pointer)
            let missing = try expectSecretError(.undecodable, .get, "pointer", "get(pointer)") {
                try store.get(pointer)
            }
            try expectNoMarker(in: missing, "the error of get(pointer), whose decoding misses a coding key,")
            let unencodable = try expectSecretError(.unencodable, .set, "refusing", "set(refusing)") {
                try store.set(refusingWallet, for: CryptKey(key: "refusing"))
            }
            try expectNoMarker(in: unencodable, "the error of set(refusing), .unencodable,")
        },
        ConformanceCheck(
            "no error of createIfAbsent shows a coding key that comes from a value", needs: [.creationIfAbsent]
        ) { store in
            let error = try expectSecretError(.unencodable, .set, "wallet", "createIfAbsent(wallet)") {
                try store.createIfAbsent(refusingWallet, for: CryptKey(key: "wallet"))
            }
            try expectNoMarker(in: error, "the error of createIfAbsent(wallet), .unencodable,")
        },
        ConformanceCheck("no reflection of the store shows a value") { store in
            try store.set(marker, for: secretToken)
            try store.set(Data(marker.utf8), for: CryptKey(key: "data"))
            try expectNoMarker(in: store, "the store")
            try expectEqual(try store.get(secretToken), marker, "get")
        },
    ]

    /// A value that cannot be encoded, below a coding key that is the marker.
    private static let refusingWallet = SecretSamples.Wallet(
        name: marker, content: SecretSamples.Refusing(text: "refused"))

    /// A secret to search for in everything printable.
    static let marker = "s3cr3t-marker"

    static func expectNoMarker(in subject: Any, _ what: String) throws {
        var dumped = ""
        dump(subject, to: &dumped)
        let shown = [
            ("description", String(describing: subject)), ("reflection", String(reflecting: subject)), ("dump", dumped),
        ]
        for (form, text) in shown where showsMarker(text) {
            let properties = Mirror(reflecting: subject).children.filter { showsMarker("\($0.value)") }.map {
                $0.label ?? "?"
            }
            let place = properties.isEmpty ? "" : " in the property " + properties.joined(separator: ", ")
            throw ConformanceViolation("\(what) shows the value in its \(form)\(place)")
        }
    }

    /// Whether a text has the marker, or its bytes as an array prints or dumps them.
    private static func showsMarker(_ text: String) -> Bool {
        let numbers = marker.utf8.prefix(6).map(String.init)
        let lines = text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        return text.contains(marker) || text.contains(numbers.joined(separator: ", "))
            || lines.joined().contains("- " + numbers.joined(separator: "- "))
    }

    /// Expects an error with this code, operation and name of the secret.
    @discardableResult
    static func expectSecretError<Result>(
        _ code: CryptError.Code, _ operation: CryptError.Operation, _ name: String, _ what: String,
        file: StaticString = #fileID, line: UInt = #line, _ body: () throws -> Result
    ) throws -> CryptError {
        let expected = "a CryptError with the code .\(caseName(of: code))"
        let error: CryptError
        do {
            let result = try body()
            let shown = "\(result)"
            let returned = result is Void ? "success" : shown != "nil" && result is Data? ? "a value" : shown
            throw ConformanceViolation("\(what): expected \(expected), got \(returned)", file: file, line: line)
        } catch let thrown as CryptError {
            error = thrown
        } catch let violation as ConformanceViolation {
            throw violation
        } catch {
            throw ConformanceViolation(
                "\(what): expected \(expected), got \(type(of: error)): \(error)", file: file, line: line)
        }
        try expect(
            error.code == code, "\(what): expected \(expected), got .\(caseName(of: error.code)): \(error)",
            file: file, line: line)
        try expect(
            error.operation == operation,
            "\(what): expected an error with the operation .\(operation), got .\(error.operation): \(error)",
            file: file, line: line)
        try expect(
            error.key.map { Array($0.utf8) } == Array(name.utf8),
            "\(what): expected an error with the key \(name.escaped), got \(error.key?.escaped ?? "nil"): \(error)",
            file: file, line: line)
        return error
    }

    /// The name of a code as in source, which its description is not.
    static func caseName(of code: CryptError.Code) -> String {
        switch code {
        case .invalidKey: "invalidKey"
        case .unencodable: "unencodable"
        case .undecodable: "undecodable"
        case .tooLarge: "tooLarge"
        case .wrongKey: "wrongKey"
        case .tampered: "tampered"
        case .truncated: "truncated"
        case .newerFormat: "newerFormat"
        case .insecureFile: "insecureFile"
        case .reservedName: "reservedName"
        case .invalidKeyMaterial: "invalidKeyMaterial"
        case .noSpace: "noSpace"
        case .unavailable: "unavailable"
        case .durabilityUnknown: "durabilityUnknown"
        case .unsupported: "unsupported"
        case .system(let status): "system(status: \(status))"
        }
    }
}

extension ConformanceChecks {
    static let secretConcurrency: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("the code of a value can use the store while the value is set and read") { store in
            try expectUsable(store, in: [.set, .get], through: calls.filter { $0.needs == nil })
        },
        ConformanceCheck(
            "the code of a value can use the store while the value is created", needs: [.creationIfAbsent]
        ) { store in
            try expectUsable(store, in: [.createIfAbsent], through: calls.filter { $0.needs == nil })
            let creations = calls.filter { $0.needs == .creationIfAbsent }
            try expectUsable(store, in: [.set, .get, .createIfAbsent], through: creations)
        },
        ConformanceCheck("of two threads that change different secrets each keeps its own") { store in
            try await expectIndependence(of: (store, store), .typed)
        },
        ConformanceCheck(
            "of two threads that change different secrets by raw values each keeps its own", needs: [.rawValues]
        ) { store in
            try await expectIndependence(of: (store, store), .raw)
        },
        ConformanceCheck("a value that is read while it is replaced is the old one or the new one") { store in
            try await expectWholeValues(store) { try store.set($0, for: $1) }
        },
        ConformanceCheck(
            "a value that is read while it is replaced by raw values is the old one or the new one", needs: [.rawValues]
        ) { store in
            try await expectWholeValues(store) { pair, key in
                try store.setRawValue(try ValueCoder().encode(pair), named: key.key, accessibility: .whenUnlocked)
            }
        },
        ConformanceCheck(
            "of concurrent createIfAbsent calls exactly one stores its value", needs: [.creationIfAbsent]
        ) { store in
            try await expectOneCreator(of: (store, store))
        },
    ]

    /// The calls whose results do not depend on the secret that is set meanwhile.
    private static var calls: [SecretCall] {
        SecretCall.changes("new") + SecretCall.reads(["a", "new"]).filter { $0.needs != .keyListing }
    }

    /// A call that runs code of its value.
    private enum Coding: String {
        case set, get, createIfAbsent

        func callAsFunction(_ value: SecretSamples.Asking, _ store: any CryptStoring) throws {
            let key = CryptKey<SecretSamples.Asking>(key: "asking")
            switch self {
            case .set: try store.set(value, for: key)
            case .get: try expectEqual(try store.get(key)?.id, value.id, "get(asking)")
            case .createIfAbsent:
                try expectEqual(try store.createIfAbsent(value, for: key), true, "createIfAbsent(asking)")
            }
        }
    }

    /// Expects that code of a value can make each of `calls`, and that they have their effect.
    private static func expectUsable(
        _ store: any CryptStoring, in codings: [Coding], through calls: [SecretCall]
    ) throws {
        for coding in codings {
            for call in calls {
                let value = SecretSamples.Asking()
                var values = ["a": "old"]
                try store.deleteAll()
                try store.set("old", for: CryptKey(key: "a"))
                if coding == .get { try store.set(value, for: CryptKey(key: "asking")) }
                let code = coding == .get ? "init(from:)" : "encode(to:)"
                let circumstance = "by \(code) during \(coding.rawValue)(asking)"
                let (results, failures) = (SecretSamples.Texts(), SecretSamples.Texts())
                try value.asking {
                    do { results.append(try call.perform(store)) } catch { failures.append("\(error)") }
                } during: {
                    try coding(value, store)
                }
                if let failure = failures.all.first {
                    throw ConformanceViolation("\(call.text) \(circumstance): expected success, got \(failure)")
                }
                // Each call is made by another thread, then by the same one.
                let expected = results.all.map { _ in call.effect(&values) }
                try expect(
                    !expected.isEmpty && results.all == expected,
                    "\(call.text) \(circumstance): expected \(expected), got \(results.all)")
                for read in SecretCall.reads(["a", "new"]) where read.needs == nil {
                    try read.expectEffect(on: &values, in: store, "after \(call.text) \(circumstance)")
                }
            }
        }
    }
}
