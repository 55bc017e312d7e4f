import ForgeCoding
import ForgeKVStore

/// A value type to measure stores with.
protocol Sample: Codable, Equatable, Sendable {
    /// The name in the table.
    static var title: String { get }

    /// The column type in SQLite.
    static var columnKind: ColumnKind { get }

    /// A value that is different for each number.
    init(sample number: Int)

    /// Conversion to and from bytes, for stores of bytes.
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

/// A struct of five fields. Stores of bytes use the same encoding as FileKVStore, so that only the stores differ.
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

    init(bytes: UnsafeRawBufferPointer) throws { self = try BinaryDecoder().decode(Settings.self, from: Array(bytes)) }
}

/// Names with their values, unordered.
struct Samples<Value: Sample>: Sendable {
    let names: [String]
    let keys: [KVKey<Value>]
    let values: [Value]

    /// Alternated with `values`, because a store may ignore a write of the value that it holds.
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

    /// The values of a round, counted from 0.
    func values(ofRound round: Int) -> [Value] { round % 2 == 0 ? values : others }

    /// A shuffled copy with distinct objects, as in a process that did not store the values itself.
    func reordered() -> Samples { Samples(order: order.shuffled()) }
}
