import ForgeCoding
import ForgeFileSystem
import ForgeKVStore
import Foundation
import SystemPackage
import Testing

@Suite struct KeyTests {
    @Test("keys are equal if their names are, byte for byte")
    func equality() {
        #expect(KVKey<Int>("a") == KVKey<Int>("a"))
        #expect(KVKey<Int>("a") != KVKey<Int>("b"))
        #expect(KVKey<Int>("\u{E9}") != KVKey<Int>("e\u{301}"))
        #expect(Set([KVKey<Int>("a"), KVKey<Int>("a"), KVKey<Int>("\u{E9}"), KVKey<Int>("e\u{301}")]).count == 3)
        #expect(KVKey<Int>("a").name == "a")
        #expect(KVKey<Int>.maximumNameLength == 1024)
    }

    @Test(
        "a key describes itself in one line",
        arguments: [
            ("a", "\"a\""), ("", "\"\""), ("a\nb", "\"a\\u{a}b\""), ("é\u{202E}", "\"é\\u{202e}\""),
            (String(repeating: "x", count: 81), "\"" + String(repeating: "x", count: 80) + "…\""),
        ])
    func description(_ name: String, _ expected: String) {
        #expect("\(KVKey<Int>(name))" == expected)
    }

    @Test("an error description has operation, key, store and reason in one line")
    func error() {
        let cause = FileSystemError(.write, .noSpace, path: "log")
        let error = KVStoreError(
            .unavailable(.inputOutput), .set, key: "a\nb", store: "/x/store", underlying: cause)
        #expect(
            "\(error)"
                == "set \"a\\u{a}b\" in /x/store: unavailable: file system error: \(cause)")
        #expect("\(KVStoreError(.noStore, .keys))" == "keys: there is no store")
        #expect(error.code.unavailability == .inputOutput)
        #expect(KVStoreError.Code.damaged.unavailability == nil)
        #expect(KVStoreError.Code.unavailable(.poisoned) != .unavailable(.locked))
    }

    @Test("an error never contains a value that a coder or the value's own code put into its error")
    func secrets() {
        struct Leaky: Error { let text = "secret" }
        let context = EncodingError.Context(codingPath: [], debugDescription: "secret")
        let decoding = DecodingError.Context(codingPath: [], debugDescription: "secret")
        let errors: [any Error] = [
            EncodingError.invalidValue("secret", context), DecodingError.dataCorrupted(decoding),
            DecodingError.typeMismatch(Int.self, decoding), DecodingError.valueNotFound(Int.self, decoding), Leaky(),
        ]
        for cause in errors {
            let error = KVStoreError(.undecodable, .read, key: "a", underlying: cause)
            #expect(!"\(error)".contains("secret"))
            var dumped = ""
            dump(error, to: &dumped)
            #expect(!dumped.contains("secret"))
        }
    }

    @Test("an error of a value's own code is reported with the operation that ran it")
    func ownCode() throws {
        struct Refusal: Error {}
        struct Refusing: Codable, Sendable {
            init() {}
            init(from decoder: any Decoder) throws { throw Refusal() }
            func encode(to encoder: any Encoder) throws { throw Refusal() }
        }
        let store = InMemoryKVStore()
        let key = KVKey<Refusing>("a")
        let write = #expect(throws: KVStoreError.self) { try store.set(key, value: Refusing()) }
        #expect("\(try #require(write))".hasSuffix("encode: the value's own code threw Refusal"))
        try store.set(KVKey<Int>("a"), value: 1)
        let read = #expect(throws: KVStoreError.self) { try store.read(key) }
        #expect("\(try #require(read))".hasSuffix("decode: the value's own code threw Refusal"))
    }

    @Test("an underlying error of an unknown type is named by its type, and not taken for one of decoding")
    func unknownErrors() {
        struct Custom: Error { let text = "secret" }
        let cancelled = KVStoreError(.unavailable(.server), .read, key: "a", underlying: CancellationError())
        #expect(cancelled.underlying is CancellationError)
        let custom = KVStoreError(.unavailable(.inputOutput), .set, key: "a", underlying: Custom())
        #expect("\(custom)" == "set \"a\": unavailable: file system error: an error of the type Custom")
        #expect("\(KVStoreError(.undecodable, .read, underlying: Custom()))".contains("Custom"))
        #expect(KVStoreError(.unencodable, .set, underlying: Custom()).underlying is CodingFailure)
    }

    @Test("every code has a distinct text")
    func codes() {
        let codes: [KVStoreError.Code] = [
            .undecodable, .unencodable, .damaged, .invalidKey, .valueTooLarge, .storeTooLarge, .tooLarge,
            .durabilityUnknown, .unknownOutcome, .notYetVisible, .timeout, .cancelled, .conflict, .readOnly, .refused,
            .leaseLost, .noStore, .newerSchema(version: 9), .unavailable(.server),
            .unavailable(.poisoned), .unavailable(.inUse(processID: 7)), .unknownFormat(version: 9),
        ]
        #expect(Set(codes.map(\.description)).count == codes.count)
    }
}
