public import Foundation

/// A stored value as a tree, for tools that do not know its type.
///
/// A payload of ``BinaryEncoder`` round-trips byte for byte. Floating-point numbers compare as numbers, so a tree that
/// contains NaN does not equal itself.
public indirect enum CodedValue: Sendable, Hashable {
    /// Null.
    case null
    /// A Boolean.
    case bool(Bool)
    /// An integer in the range of `Int64`.
    case integer(Int64)
    /// An integer beyond the range of ``integer(_:)``.
    case unsigned(UInt64)
    /// A `Float`, or a half-precision number.
    case float(Float)
    /// A `Double`.
    case double(Double)
    /// A string.
    case string(String)
    /// A byte string: `Data`, `[UInt8]`.
    case bytes([UInt8])
    /// A date.
    case date(Date)
    /// An unkeyed container.
    case array([CodedValue])
    /// A keyed container, in encoded order.
    case map([Entry])
    /// A tagged value: 2 and 3 bignum, 4 `Decimal`, 32 `URL`, 37 `UUID`; other encoders write others.
    case tagged(UInt64, CodedValue)
    /// Another simple value, such as `undefined` (23).
    case simple(UInt8)

    /// A key and its value. ``BinaryEncoder`` writes only string keys.
    public struct Entry: Sendable, Hashable {
        /// The key.
        public var key: CodedValue
        /// The value.
        public var value: CodedValue

        /// Creates an entry.
        public init(_ key: CodedValue, _ value: CodedValue) {
            self.key = key
            self.value = value
        }
    }

    /// The maximum nesting depth.
    public static let maximumDepth = 64

    /// The value under a string key of a map; nil if there is none. Keys are compared by their UTF-8.
    ///
    /// - Complexity: O(entries).
    public subscript(key: String) -> CodedValue? {
        guard case .map(let entries) = self else { return nil }
        return entries.first { $0.key.isString(key) }?.value
    }

    private func isString(_ text: String) -> Bool {
        guard case .string(let own) = self else { return false }
        return own.utf8.elementsEqual(text.utf8)
    }
}

extension CodedValue: CustomStringConvertible {
    public var description: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .integer(let value): "\(value)"
        case .unsigned(let value): "\(value)"
        case .float(let value): "\(value)"
        case .double(let value): "\(value)"
        case .string(let value): value.debugDescription
        case .bytes(let value): "\(value.count) bytes"
        // Foundation traps when it describes a date that no calendar has.
        case .date(let value): "date(\(value.timeIntervalSince1970))"
        case .array(let elements): "\(elements)"
        case .map(let entries): "{" + entries.map { "\($0.key): \($0.value)" }.joined(separator: ", ") + "}"
        case .tagged(let tag, let value): "\(tag)(\(value))"
        case .simple(let value): "simple(\(value))"
        }
    }
}
