import ForgeCoding
import Testing

@Suite("The error of a value that a type refuses")
struct RefusedValueTests {
    private enum Theme: String, Codable { case dark, light }

    private struct Look: Codable {
        var theme: Theme?
        var history: [Theme] = []
    }

    private struct Quoting: Decodable {
        init(from decoder: any Decoder) throws {
            let text = try decoder.singleValueContainer().decode(String.self)
            throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "bad: \(text)"))
        }
    }

    private func failure<Value: Codable & Sendable>(
        of type: (some Decodable).Type, from value: Value
    ) throws -> CodingFailure {
        let bytes = try ValueCoder().encode(value)
        do {
            _ = try ValueCoder().decode(type, from: bytes)
            throw CodingFailure(.decode, .corrupted("no error"))
        } catch let error as DecodingError {
            #expect(!"\(error)".contains("s3cr3t"))
            return CodingFailure(.decode, describing: error)
        }
    }

    @Test("names the type of an unknown enumeration case, and its path, but not the value")
    func unknownCase() throws {
        let top = try failure(of: Theme.self, from: "s3cr3t")
        #expect(top == CodingFailure(.decode, .refused(by: "Theme")))
        #expect(top.description == "decode: the data has a value that Theme does not accept")
        let property = try failure(of: Look.self, from: ["theme": "s3cr3t"])
        #expect(property == CodingFailure(.decode, .refused(by: "Theme"), codingPath: "theme"))
        let element = try failure(of: [Theme].self, from: ["dark", "s3cr3t"])
        #expect(element == CodingFailure(.decode, .refused(by: "Theme"), codingPath: "1"))
    }

    @Test("does not contain the text of the type's own error")
    func ownText() throws {
        let failure = try failure(of: [Quoting].self, from: ["s3cr3t"])
        #expect(failure == CodingFailure(.decode, .refused(by: "Quoting"), codingPath: "0"))
    }

    @Test("differs from that of damaged bytes")
    func damage() throws {
        var bytes = try ValueCoder().encode(["theme": "dark"])
        bytes.removeLast()
        let error = #expect(throws: DecodingError.self) { try ValueCoder().decode(Look.self, from: bytes) }
        let failure = CodingFailure(.decode, describing: try #require(error))
        guard case .corrupted = failure.reason else {
            Issue.record("\(failure)")
            return
        }
    }
}

@Suite("Types that are known at run time only") struct SubclassTests {
    class Animal: Codable {
        var name = "Rex"
        init() {}
    }

    final class Dog: Animal {
        var tricks = 3
        private enum CodingKeys: CodingKey { case tricks }
        override init() { super.init() }
        required init(from decoder: any Decoder) throws {
            tricks = try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .tricks)
            try super.init(from: decoder)
        }
        override func encode(to encoder: any Encoder) throws {
            try super.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(tricks, forKey: .tricks)
        }
    }

    /// Decodes its elements, or itself, as dogs through the type of their superclass.
    struct Kennel: Decodable {
        var dogs: [Animal] = []
        init(from decoder: any Decoder) throws {
            let type: Animal.Type = Dog.self
            if let single = try? decoder.singleValueContainer().decode(type) { dogs.append(single) }
            guard var container = try? decoder.unkeyedContainer() else { return }
            while !container.isAtEnd { dogs.append(try container.decode(type)) }
        }
    }

    /// Decodes members as dogs through the type of their superclass.
    ///
    /// `decode(_:forKey:)` of the standard library's container passes the static type on, to every decoder.
    struct Owner: Decodable {
        private enum CodingKeys: CodingKey { case first }
        var dogs: [Animal]
        init(from decoder: any Decoder) throws {
            let type: Animal.Type = Dog.self
            let container = try decoder.container(keyedBy: CodingKeys.self)
            dogs = [try container.superDecoder(forKey: .first).singleValueContainer().decode(type)]
        }
    }

    @Test("a metatype of a subclass decodes the subclass")
    func metatypes() throws {
        let type: Animal.Type = Dog.self
        let bytes = try ValueCoder().encode(Dog())
        #expect((try ValueCoder().decode(type, from: bytes) as? Dog)?.tricks == 3)
        let payload = try BinaryEncoder().encode(Dog())
        #expect((try BinaryDecoder().decode(type, from: payload) as? Dog)?.tricks == 3)
        #expect(try BinaryDecoder().decode(Kennel.self, from: payload).dogs.allSatisfy { $0 is Dog })
        let kennel = try BinaryDecoder().decode(Kennel.self, from: [0x82] + payload + payload)
        #expect(kennel.dogs.count == 2 && kennel.dogs.allSatisfy { $0 is Dog })
        let members = try BinaryEncoder().encode(["first": Dog()])
        #expect(try BinaryDecoder().decode(Owner.self, from: members).dogs.allSatisfy { $0 is Dog })
    }
}
