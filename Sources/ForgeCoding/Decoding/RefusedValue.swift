/// The underlying error of a `DecodingError` that the `init(from:)` of a type threw.
struct RefusedValue: Error {
    /// The name of the innermost type that threw.
    let type: String
}

/// Calls the `init(from:)` of a type; its errors name the type and never quote the value.
@inline(__always)
func decodeItself<Value: Decodable>(_ type: Value.Type, _ node: DecodingNode) throws -> Value {
    do {
        return try Value(from: node)
    } catch let error as DecodingError {
        throw error.withoutForeignText(thrownBy: type)
    }
}

extension DecodingError {
    /// The error without the text of code outside this module, which may quote the value, as that of the standard
    /// library for enumerations does. The errors of this module have a ``WireFailure``.
    fileprivate func withoutForeignText(thrownBy type: any Any.Type) -> DecodingError {
        func stated(_ context: Context, _ text: String) -> Context {
            if context.underlyingError is WireFailure || context.underlyingError is RefusedValue { return context }
            return Context(
                codingPath: context.codingPath, debugDescription: text, underlyingError: RefusedValue(type: "\(type)"))
        }
        switch self {
        case .typeMismatch(let expected, let context):
            return .typeMismatch(expected, stated(context, "\(expected): found a value of another type"))
        case .valueNotFound(let expected, let context):
            return .valueNotFound(expected, stated(context, "\(expected): found no value"))
        case .keyNotFound(let key, let context):
            return .keyNotFound(key, stated(context, "no value under the key"))
        case .dataCorrupted(let context):
            return .dataCorrupted(stated(context, "\(type) does not accept the value"))
        @unknown default:
            return .dataCorrupted(stated(Context(codingPath: [], debugDescription: ""), "\(type) threw an error"))
        }
    }
}
