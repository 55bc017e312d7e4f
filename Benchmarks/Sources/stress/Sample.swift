/// A value that contains the number of its key and of the write that stored it.
protocol Sample: Codable, Sendable {
    /// The prefix of the names of keys of this type.
    static var title: String { get }

    init(key: Int, number: Int)

    /// The number of the write; nil for a value that no write has stored under the key.
    func number(key: Int) -> Int?
}

extension Int: Sample {
    static var title: String { "Int" }

    private static let keyLimit = 1000

    init(key: Int, number: Int) { self = number * Self.keyLimit + key }

    func number(key: Int) -> Int? { self % Self.keyLimit == key ? self / Self.keyLimit : nil }
}

/// `KEY:NUMBER:` and padding, whose kind and length depend on the number: none, so that the text takes at most 15 bytes
/// and no memory of its own; ASCII; or characters of two bytes.
///
/// Making and checking a text costs tens of nanoseconds, so that the threads spend their time in the store.
extension String: Sample {
    static var title: String { "String" }

    init(key: Int, number: Int) {
        self.init(unsafeUninitializedCapacity: 128) { bytes in
            var count = 0
            Self.append(key, to: bytes, &count)
            Self.append(number, to: bytes, &count)
            let padding = Padding(number)
            for index in 0..<padding.count {
                bytes[count] = padding[index]
                count += 1
            }
            return count
        }
    }

    private struct Padding {
        let isASCII: Bool
        let count: Int

        init(_ number: Int) {
            isASCII = number % 3 != 2
            count = number % 3 == 0 ? 0 : 16 + number % 32 * 2
        }

        /// `x`, or the bytes of `é`.
        subscript(index: Int) -> UInt8 { isASCII ? 0x78 : index % 2 == 0 ? 0xC3 : 0xA9 }
    }

    /// Appends the digits of a number, the last one first, and a colon.
    private static func append(_ number: Int, to bytes: UnsafeMutableBufferPointer<UInt8>, _ count: inout Int) {
        var rest = number
        repeat {
            bytes[count] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
            count += 1
        } while rest > 0
        bytes[count] = UInt8(ascii: ":")
        count += 1
    }

    func number(key: Int) -> Int? {
        var text = self
        return text.withUTF8 { bytes in
            var next = 0
            guard Self.number(in: bytes, &next) == key, let number = Self.number(in: bytes, &next) else { return nil }
            let padding = Padding(number)
            guard bytes.count - next == padding.count else { return nil }
            for index in 0..<padding.count where bytes[next + index] != padding[index] { return nil }
            return number
        }
    }

    /// The number whose digits end at the next colon.
    private static func number(in bytes: UnsafeBufferPointer<UInt8>, _ next: inout Int) -> Int? {
        var number = 0
        var unit = 1
        while next < bytes.count, unit <= 1_000_000_000_000 {
            let digit = Int(bytes[next]) - Int(UInt8(ascii: "0"))
            next += 1
            if digit == 10 { return unit > 1 ? number : nil }
            guard (0..<10).contains(digit) else { return nil }
            number += digit * unit
            unit *= 10
        }
        return nil
    }
}

/// Three texts, one of each kind.
extension [String]: Sample {
    static var title: String { "Array" }

    init(key: Int, number: Int) { self = (0..<3).map { String(key: key, number: number + $0) } }

    func number(key: Int) -> Int? {
        guard count == 3, let number = self[0].number(key: key), self[1].number(key: key) == number + 1,
            self[2].number(key: key) == number + 2
        else { return nil }
        return number
    }
}

/// A struct with fields of all kinds.
struct Record: Sample {
    var key: Int
    var text: String
    var isOdd: Bool
    var list: [String]

    static var title: String { "struct" }

    init(key: Int, number: Int) {
        self.key = key
        text = String(key: key, number: number)
        isOdd = number % 2 == 1
        list = [String](key: key, number: number)
    }

    func number(key: Int) -> Int? {
        guard self.key == key, let number = text.number(key: key), isOdd == (number % 2 == 1),
            list.number(key: key) == number
        else { return nil }
        return number
    }
}

/// An object.
final class Box: Sample {
    let key: Int
    let text: String

    static var title: String { "class" }

    init(key: Int, number: Int) {
        self.key = key
        text = String(key: key, number: number)
    }

    func number(key: Int) -> Int? { self.key == key ? text.number(key: key) : nil }
}
