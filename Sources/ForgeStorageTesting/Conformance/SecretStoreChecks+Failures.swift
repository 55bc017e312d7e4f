import Dispatch
import ForgeCrypt
import Foundation

extension ConformanceChecks {
    static let secretFailures: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("a value of another type is undecodable, not absent, and is kept") { store in
            try store.set("text", for: secretToken)
            let error = try await expectSecretError(.undecodable, "get as an account") {
                try store.get(CryptKey<SecretSamples.Account>(key: secretToken.key))
            }
            try expectEqual(error.key, secretToken.key, "the key of the error")
            try expectEqual(try store.get(secretToken), "text", "get after")
        },
        ConformanceCheck("a value that cannot be encoded is refused, and the old one is kept") { store in
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            try store.set(SecretSamples.Refusing(text: "fine"), for: key)
            try await expectSecretError(.unencodable, "set") {
                try store.set(SecretSamples.Refusing(text: marker), for: key)
            }
            try expectEqual(try store.get(key)?.text, "fine", "get after")
            try expect(try store.contains(key), "contains after")
        },
        ConformanceCheck("a value of more than 16 MiB is refused, and the old one is kept") { store in
            let key = CryptKey<Data>(key: "large")
            try store.set(Data("small".utf8), for: key)
            try await expectSecretError(.tooLarge, "set") { try store.set(Data(count: 16 << 20 + 1), for: key) }
            try expectEqual(try store.get(key), Data("small".utf8), "get after")
        },
        ConformanceCheck("no error shows a value, however it is printed") { store in
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            let unencodable = try await expectSecretError(.unencodable, "set") {
                try store.set(SecretSamples.Refusing(text: marker), for: key)
            }
            try store.set(marker, for: secretToken)
            let undecodable = try await expectSecretError(.undecodable, "get as a choice") {
                try store.get(CryptKey<SecretSamples.Choice>(key: secretToken.key))
            }
            let asRefusing = try await expectSecretError(.undecodable, "get as a type that quotes") {
                try store.get(CryptKey<SecretSamples.Quoting>(key: secretToken.key))
            }
            for error in [unencodable, undecodable, asRefusing] { try expectNoMarker(in: error, "an error") }
        },
        ConformanceCheck("no reflection of the store shows a value") { store in
            try store.set(marker, for: secretToken)
            try store.set(Data(marker.utf8), for: CryptKey(key: "data"))
            try expectNoMarker(in: store, "the store")
            try expectEqual(try store.get(secretToken), marker, "get")
        },
    ]

    /// A secret to search for in everything printable.
    private static let marker = "s3cr3t-marker"

    /// Also searches for the marker's bytes as an array prints them.
    private static func expectNoMarker(in subject: Any, _ what: String) throws {
        var dumped = ""
        dump(subject, to: &dumped)
        let shown = [String(describing: subject), String(reflecting: subject), dumped]
        let numbers = marker.utf8.prefix(6).map(String.init)
        for text in shown {
            try expect(!text.contains(marker), "\(what) shows the value")
            try expect(!text.contains(numbers.joined(separator: ", ")), "\(what) shows the value's bytes")
            let lines = text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            try expect(!lines.joined().contains("- " + numbers.joined(separator: "- ")), "\(what) dumps the value")
        }
    }

    // MARK: Concurrency

    static let secretConcurrency: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("values set by concurrent threads are all kept") { store in
            let failures = inParallel(4) { thread in
                for number in 0..<8 { try store.set(thread * 100 + number, for: CryptKey(key: "\(thread).\(number)")) }
            }
            try expectEqual(failures, [], "failures")
            for thread in 0..<4 {
                for number in 0..<8 {
                    let value = try store.get(CryptKey<Int>(key: "\(thread).\(number)"))
                    try expectEqual(value, thread * 100 + number, "\(thread).\(number)")
                }
            }
        },
        ConformanceCheck("a value that is read while it is replaced is the old one or the new one") { store in
            let key = CryptKey<[Int]>(key: "pair")
            try store.set([0, 0], for: key)
            let failures = inParallel(4) { thread in
                for number in 1...16 {
                    if thread < 2 {
                        try store.set([number, number], for: key)
                    } else {
                        guard let pair = try store.get(key), pair.count == 2, pair[0] == pair[1] else {
                            throw ConformanceViolation("torn or absent")
                        }
                    }
                }
            }
            try expectEqual(failures, [], "failures")
        },
    ]

    /// Runs `body` on several threads concurrently and returns the descriptions of their errors.
    static func inParallel(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) -> [String] {
        let failures = SecretSamples.Failures()
        DispatchQueue.concurrentPerform(iterations: count) { thread in
            do {
                try body(thread)
            } catch {
                failures.append("\(error)")
            }
        }
        return failures.all
    }
}
