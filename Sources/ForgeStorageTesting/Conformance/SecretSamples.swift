import Dispatch
import ForgeCrypt
import Synchronization

/// Values for the checks of secret stores.
enum SecretSamples {
    /// A value with fields of several types.
    struct Account: Codable, Equatable, Sendable {
        enum Role: Codable, Equatable, Sendable {
            case guest
            case member(level: Int)
        }

        var name: String
        var tokens: [String: [Int]]
        var role: Role
        var nickname: String?
    }

    /// A type that decodes from a single string; Swift's error for any other quotes it.
    enum Choice: String, Codable, Sendable {
        case only
    }

    /// A value whose encoding may fail with an error that quotes it.
    struct Refusing: Codable, Sendable {
        var text: String

        private enum CodingKeys: CodingKey {
            case text
        }

        init(text: String) {
            self.text = text
        }

        func encode(to encoder: any Encoder) throws {
            guard text == "fine" else {
                throw EncodingError.invalidValue(text, .init(codingPath: [], debugDescription: "refused: \(text)"))
            }
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(text, forKey: .text)
        }
    }

    /// A value whose decoding fails with an error that quotes its input.
    struct Quoting: Codable, Sendable {
        struct Refusal: Error {
            var text: String
        }

        init(from decoder: any Decoder) throws {
            throw Refusal(text: try decoder.singleValueContainer().decode(String.self))
        }
    }

    /// A value whose coding reads a store, from another thread so that a lock of any kind is noticed.
    struct Asking: Codable, Sendable {
        private static let stores = Mutex<[Int: any CryptStoring]>([:])

        let id: Int

        /// Calls `body` with a value that reads `store`.
        static func asking(_ store: any CryptStoring, _ body: (Asking) throws -> Void) throws {
            let id = Int.random(in: 0 ... .max)
            stores.withLock { $0[id] = store }
            defer { _ = stores.withLock { $0.removeValue(forKey: id) } }
            try body(Asking(id: id))
        }

        private init(id: Int) { self.id = id }

        init(from decoder: any Decoder) throws {
            id = try decoder.singleValueContainer().decode(Int.self)
            try ask()
        }

        func encode(to encoder: any Encoder) throws {
            try ask()
            var container = encoder.singleValueContainer()
            try container.encode(id)
        }

        private func ask() throws {
            guard let store = Self.stores.withLock({ $0[id] }) else { return }
            let (finished, failures) = (DispatchSemaphore(value: 0), Failures())
            DispatchQueue(label: "ConformanceCheck").async {
                do {
                    _ = try store.get(ConformanceChecks.secretToken)
                } catch {
                    failures.append("\(error)")
                }
                finished.signal()
            }
            finished.wait()
            if let failure = failures.all.first { throw ConformanceViolation("get(auth.access): got \(failure)") }
        }
    }

    /// The failures of several threads.
    final class Failures: Sendable {
        private let list = Mutex<[String]>([])

        func append(_ failure: String) {
            list.withLock { $0.append(failure) }
        }

        var all: [String] { list.withLock { $0 } }
    }
}
