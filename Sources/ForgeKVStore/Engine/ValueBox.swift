/// A decoded value kept beside its bytes, so that it is not decoded twice.
class ValueBox: @unchecked Sendable {
    // Invariant of the unchecked conformance: the one subclass holds one immutable Sendable value.
    fileprivate init() {}
}

/// The box of a value of one type.
final class TypedBox<Value: Sendable>: ValueBox, @unchecked Sendable {
    private let value: Value

    init(_ value: Value) {
        self.value = value
    }

    /// The value in `box`, if it is one of exactly this type.
    static func value(in box: ValueBox?) -> Value? {
        guard let box, type(of: box) == TypedBox<Value>.self else { return nil }
        return unsafeDowncast(box, to: TypedBox<Value>.self).value
    }
}

extension ValueBox {
    /// A box for a value that was decoded; nil for an object, of which every reader gets a copy of its own.
    static func ofDecoded<Value: Sendable>(_ value: Value) -> ValueBox? {
        Value.self is AnyObject.Type ? nil : TypedBox(value)
    }

    /// A box for a value that is about to be encoded, if it is of a type that comes back from decoding unchanged.
    static func ofExact<Value: Sendable>(_ value: Value) -> ValueBox? {
        isExact(Value.self) ? TypedBox(value) : nil
    }

    private static func isExact(_ type: Any.Type) -> Bool {
        type == Int.self || type == String.self || type == Bool.self || type == Double.self || type == Float.self
            || type == UInt.self || type == Int64.self || type == Int32.self || type == Int16.self
            || type == Int8.self || type == UInt64.self || type == UInt32.self || type == UInt16.self
            || type == UInt8.self
    }
}
