import ForgeCoding
import ForgeCrypt
import Foundation

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
