import ForgeCoding
import ForgeKVStore

/// A type of value that every store is measured with.
protocol Sample: Codable, Equatable, Sendable {
    /// What it is called in the table.
    static var title: String { get }

    /// What SQLite keeps it as.
    static var columnKind: ColumnKind { get }

    /// A value that differs from those of all other numbers.
    init(sample number: Int)

    /// The value as stores of bytes are given it, and back.
    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result
    init(bytes: UnsafeRawBufferPointer) throws
}

enum ColumnKind {
    case integer, text, blob
}

extension Int: Sample {
    static var title: String { "Int" }
    static var columnKind: ColumnKind { .integer }

    init(sample number: Int) { self = number }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        try withUnsafeBytes(of: self, body)
    }

    init(bytes: UnsafeRawBufferPointer) throws {
        guard bytes.count == MemoryLayout<Int>.size else { throw WrongLength(count: bytes.count) }
        self = bytes.loadUnaligned(as: Int.self)
    }

    struct WrongLength: Error {
        let count: Int
    }
}

/// Of 32 characters.
extension String: Sample {
    static var title: String { "String" }
    static var columnKind: ColumnKind { .text }

    init(sample number: Int) {
        let digits = String(number)
        self = String(repeating: "x", count: 32 - digits.count) + digits
    }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        var text = self
        return try text.withUTF8 { try body(UnsafeRawBufferPointer($0)) }
    }

    init(bytes: UnsafeRawBufferPointer) { self = String(decoding: bytes, as: UTF8.self) }
}

/// A struct of five fields. Stores of bytes are given it in the coding that FileKVStore uses itself, so that what is
/// compared is the stores.
struct Settings: Sample {
    var name: String
    var count: Int
    var ratio: Double
    var isOn: Bool
    var tags: [String]

    static var title: String { "struct" }
    static var columnKind: ColumnKind { .blob }

    init(sample number: Int) {
        name = "user-\(number)"
        count = number
        ratio = Double(number) / 3
        isOn = number % 2 == 0
        tags = ["a", "b"]
    }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        try BinaryEncoder().encode(self).withUnsafeBytes(body)
    }

    init(bytes: UnsafeRawBufferPointer) throws { self = try BinaryDecoder().decode(Settings.self, from: bytes) }
}

/// Names with their values, in no order.
struct Samples<Value: Sample>: Sendable {
    let names: [String]
    let keys: [KVKey<Value>]
    let values: [Value]

    /// What is stored in turn with `values`: a store may notice that what is there is what it is given, and do nothing.
    let others: [Value]

    private let order: [Int]

    init(_ count: Int) {
        self.init(order: (0..<count).shuffled())
    }

    private init(order: [Int]) {
        self.order = order
        names = order.map { "settings.\(Value.title.lowercased()).\($0)" }
        keys = names.map { KVKey($0) }
        values = order.map { Value(sample: $0) }
        others = order.map { Value(sample: $0 + order.count) }
    }

    /// What is stored in a round, the first of which is 0.
    func values(ofRound round: Int) -> [Value] { round % 2 == 0 ? values : others }

    /// The same in another order and as other objects, as a process has them that did not itself store what it reads.
    func reordered() -> Samples { Samples(order: order.shuffled()) }
}
