import ForgeCoding
public import Foundation

/// The form of a cache's values on disk, and their sizes in memory.
public struct CacheCoding<Value: Sendable>: Sendable {
    /// Encodes a value.
    public var encode: @Sendable (Value) throws -> Data

    /// Decodes a value; an entry for which it throws counts as missing.
    public var decode: @Sendable (Data) throws -> Value

    /// The size of a value in memory, in bytes; nil for the size of its encoded form.
    public var cost: (@Sendable (Value) -> Int)?

    /// Creates a coding.
    public init(
        encode: @escaping @Sendable (Value) throws -> Data, decode: @escaping @Sendable (Data) throws -> Value,
        cost: (@Sendable (Value) -> Int)? = nil
    ) {
        self.encode = encode
        self.decode = decode
        self.cost = cost
    }
}

extension CacheCoding where Value: Codable {
    /// Any Codable value, as `ForgeCoding.ValueCoder` encodes it.
    public static var codable: CacheCoding {
        CacheCoding {
            Data(try ValueCoder().encode($0))
        } decode: {
            try ValueCoder().decode(Value.self, from: Array($0))
        }
    }
}

extension CacheCoding where Value == Data {
    /// Bytes as they are.
    public static var bytes: CacheCoding { CacheCoding(encode: { $0 }, decode: { $0 }, cost: \.count) }
}
