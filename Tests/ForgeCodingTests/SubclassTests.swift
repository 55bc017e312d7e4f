import ForgeCoding
import Testing

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
    }
}
