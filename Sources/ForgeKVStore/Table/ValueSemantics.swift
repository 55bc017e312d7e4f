import Foundation

/// Tells values that share no mutable state with their copies.
///
/// A store keeps such values decoded and gives every reader a copy. Any other is decoded by every read, so that an
/// object in it belongs to one reader alone.
enum ValueSemantics {
    /// Whether a value certainly shares nothing that can be changed with its copies.
    ///
    /// It contains no object, function or pointer, except inside types of the standard library and Foundation that copy
    /// on write. What a value contains now decides, not what its type may contain: an enum case or an empty optional
    /// without an object is as good as a number.
    static func isCertain<Value>(of value: Value) -> Bool {
        Value.self is any KnownValue.Type || isCertain(ofAny: value)
    }

    fileprivate static func isCertain(ofAny value: Any) -> Bool {
        if value is any KnownValue { return true }
        if let container = value as? any ContainerOfValues { return container.allValuesAreCertain }
        // Such a type chooses what its mirror shows.
        if value is any CustomReflectable { return false }
        let mirror = Mirror(reflecting: value)
        switch mirror.displayStyle {
        case .struct, .enum, .tuple, .optional:
            // Without children, unless the type holds no reference, the program may lack the metadata that names them.
            guard mirror.children.isEmpty else { return mirror.children.allSatisfy { isCertain(ofAny: $0.value) } }
            return holdsNoReference(value)
        default:
            return false
        }
    }

    private static func holdsNoReference(_ value: Any) -> Bool {
        func isTrivial<Value>(_ value: Value) -> Bool { _isPOD(Value.self) }
        return _openExistential(value, do: isTrivial)
    }
}

/// A type all of whose values have value semantics.
private protocol KnownValue {}

extension Int: KnownValue {}
extension Int8: KnownValue {}
extension Int16: KnownValue {}
extension Int32: KnownValue {}
extension Int64: KnownValue {}
extension Int128: KnownValue {}
extension UInt: KnownValue {}
extension UInt8: KnownValue {}
extension UInt16: KnownValue {}
extension UInt32: KnownValue {}
extension UInt64: KnownValue {}
extension UInt128: KnownValue {}
extension Bool: KnownValue {}
extension Double: KnownValue {}
extension Float: KnownValue {}
extension String: KnownValue {}
extension Character: KnownValue {}
extension Duration: KnownValue {}
extension Data: KnownValue {}
extension Date: KnownValue {}
extension DateComponents: KnownValue {}
extension DateInterval: KnownValue {}
extension Decimal: KnownValue {}
extension IndexPath: KnownValue {}
extension Locale: KnownValue {}
extension TimeZone: KnownValue {}
extension URL: KnownValue {}
extension UUID: KnownValue {}

extension Optional: KnownValue where Wrapped: KnownValue {}
extension Array: KnownValue where Element: KnownValue {}
extension Set: KnownValue where Element: KnownValue {}
extension Dictionary: KnownValue where Key: KnownValue, Value: KnownValue {}
extension Range: KnownValue where Bound: KnownValue {}
extension ClosedRange: KnownValue where Bound: KnownValue {}

/// A type whose values have value semantics if all values in them do.
private protocol ContainerOfValues {
    var allValuesAreCertain: Bool { get }
}

extension Optional: ContainerOfValues {
    fileprivate var allValuesAreCertain: Bool { map { ValueSemantics.isCertain(ofAny: $0) } ?? true }
}

extension Array: ContainerOfValues {
    fileprivate var allValuesAreCertain: Bool { allSatisfy { ValueSemantics.isCertain(ofAny: $0) } }
}

extension Set: ContainerOfValues {
    fileprivate var allValuesAreCertain: Bool { allSatisfy { ValueSemantics.isCertain(ofAny: $0) } }
}

extension Dictionary: ContainerOfValues {
    fileprivate var allValuesAreCertain: Bool {
        allSatisfy { ValueSemantics.isCertain(ofAny: $0.key) && ValueSemantics.isCertain(ofAny: $0.value) }
    }
}
