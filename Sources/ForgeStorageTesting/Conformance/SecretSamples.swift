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

    /// A value whose encoded form has a coding key that is part of the value.
    struct Wallet<Content: Codable & Sendable>: Codable, Sendable {
        private struct Name: CodingKey {
            let stringValue: String
            var intValue: Int? { nil }

            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        let name: String
        let content: Content

        init(name: String, content: Content) { (self.name, self.content) = (name, content) }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Name.self)
            guard let key = container.allKeys.first else { throw ConformanceViolation("a wallet without a name") }
            (name, content) = (key.stringValue, try container.decode(Content.self, forKey: key))
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Name.self)
            try container.encode(content, forKey: Name(stringValue: name))
        }
    }

    /// A value whose coding makes a call, if one is registered.
    struct Asking: Codable, Sendable {
        private static let calls = Mutex<[Int: @Sendable () -> Void]>([:])

        let id: Int

        init() { id = Int.random(in: 0 ... .max) }

        /// Calls `body`, in which the coding of this value calls `call`: on another thread, so that a lock of any kind is
        /// noticed, and then on its own, so that what it stores would be lost with a lock that can be taken twice.
        func asking(_ call: @escaping @Sendable () -> Void, during body: () throws -> Void) rethrows {
            Self.calls.withLock { $0[id] = call }
            defer { _ = Self.calls.withLock { $0.removeValue(forKey: id) } }
            try body()
        }

        init(from decoder: any Decoder) throws {
            id = try decoder.singleValueContainer().decode(Int.self)
            ask()
        }

        func encode(to encoder: any Encoder) throws {
            ask()
            var container = encoder.singleValueContainer()
            try container.encode(id)
        }

        private func ask() {
            guard let call = Self.calls.withLock({ $0[id] }) else { return }
            let finished = DispatchSemaphore(value: 0)
            DispatchQueue(label: "ConformanceCheck").async {
                call()
                finished.signal()
            }
            finished.wait()
            call()
        }
    }

    /// Texts of several threads.
    final class Texts: Sendable {
        private let list = Mutex<[String]>([])

        func append(_ text: String) {
            list.withLock { $0.append(text) }
        }

        var all: [String] { list.withLock { $0 } }
    }
}

// MARK: Names

extension SecretSamples {
    /// Names that every call accepts, each of them another.
    static let names = [
        "../x", "/etc/passwd", "a/b", "a", "A", "a.b", ".", "..", "~", "/", "%00", "%2e%2e", "%41", "#lock", "con",
        "\n",
        "a\nb", "\t", " ", " a", "a ", "'; DROP", "\\", "*", "\u{FEFF}a", "🔑", "\u{E9}", "e\u{301}",
        String(repeating: "n", count: 255), String(repeating: "n", count: 1024),
        String(repeating: "\u{E9}", count: 512),
    ]

    /// Names that every call refuses: empty, of more than 1,024 bytes (1,025 and 600 Characters), with a NUL.
    static let invalidNames = [
        "", String(repeating: "n", count: 1025), String(repeating: "\u{E9}", count: 600), "a\u{0}b", "a\u{0}", "\u{0}",
    ]
}
