public import Foundation

/// A stored value as a tree, for tools that do not know its type.
///
/// The tree of a payload and the payload made of the tree are the same bytes if ``BinaryEncoder`` wrote them. Two trees are
/// equal if their numbers are, so that a tree with a not-a-number in it does not equal itself.
public indirect enum CodedValue: Sendable, Hashable {
    /// Nil.
    case null
    /// A Boolean.
    case bool(Bool)
    /// An integer that fits into 64 bits and a sign.
    case integer(Int64)
    /// An integer above the range of ``integer(_:)``.
    case unsigned(UInt64)
    /// A `Float`, or a number of half precision.
    case float(Float)
    /// A `Double`.
    case double(Double)
    /// A text.
    case string(String)
    /// A byte string: `Data`, `[UInt8]`.
    case bytes([UInt8])
    /// A date.
    case date(Date)
    /// An unkeyed container.
    case array([CodedValue])
    /// A keyed container, in the order of the bytes.
    case map([Entry])
    /// A value with a CBOR tag: 2 and 3 integers beyond 64 bits, 4 `Decimal`, 32 `URL`, 37 `UUID`; others by other writers.
    case tagged(UInt64, CodedValue)
    /// A simple value of CBOR that has no meaning here, `undefined` (23) among them.
    case simple(UInt8)

    /// A key and its value. Keys are texts wherever ``BinaryEncoder`` wrote them.
    public struct Entry: Sendable, Hashable {
        /// The key.
        public var key: CodedValue
        /// The value under it.
        public var value: CodedValue

        /// An entry from its parts.
        public init(_ key: CodedValue, _ value: CodedValue) {
            self.key = key
            self.value = value
        }
    }

    /// How deep values may lie within one another.
    public static let maximumDepth = 64

    /// The value under a text key of a map; nil where there is none.
    ///
    /// - Complexity: O(entries).
    public subscript(key: String) -> CodedValue? {
        guard case .map(let entries) = self else { return nil }
        return entries.first { $0.key == .string(key) }?.value
    }
}
