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
        ConformanceCheck("a value of more than 16 MiB is refused, and the old one is kept") { store in
            let key = CryptKey<Data>(key: "large")
            try store.set(Data("small".utf8), for: key)
            try expectSecretError(.tooLarge, .set, key.key, "set(large) of more than 16 MiB") {
                try store.set(Data(count: 16 << 20 + 1), for: key)
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
            let refusing = SecretSamples.Wallet(name: marker, content: SecretSamples.Refusing(text: "refused"))
            let unencodable = try expectSecretError(.unencodable, .set, "refusing", "set(refusing)") {
                try store.set(refusing, for: CryptKey(key: "refusing"))
            }
            try expectNoMarker(in: unencodable, "the error of set(refusing), .unencodable,")
        },
        ConformanceCheck("no reflection of the store shows a value") { store in
            try store.set(marker, for: secretToken)
            try store.set(Data(marker.utf8), for: CryptKey(key: "data"))
            try expectNoMarker(in: store, "the store")
            try expectEqual(try store.get(secretToken), marker, "get")
        },
    ]

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
            let returned = result is Void ? "success" : result is Data? ? "a value" : "\(result)"
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
