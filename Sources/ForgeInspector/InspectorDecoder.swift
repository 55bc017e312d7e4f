import ForgeCoding
import Foundation

/// Shows values of an app's own types as text.
///
/// Values are shown as JSON without any decoder; one adds what the JSON does not say, such as the name of a colour or
/// the summary of a document.
///
/// ```swift
/// struct Note: Codable, Sendable {
///     var title: String
/// }
///
/// var options = InspectorOptions()
/// options.decoders = [.values(of: Note.self, prefix: "notes/") { $0.title }]
/// let inspector = try Inspector(URL(fileURLWithPath: "my-app-data"), options: options)
/// ```
///
/// `try await inspector.serve(port: 0) { print($0) }` then serves the page, in a build with the package trait
/// `Inspector`.
public struct InspectorDecoder: Sendable {
    /// The name of the type, shown above the text.
    public var name: String

    let text: @Sendable (_ key: String, _ bytes: [UInt8]) throws -> String?

    /// Creates a decoder.
    ///
    /// - Parameters:
    ///   - name: The name of the type.
    ///   - text: Returns the text for the encoded value of a key, in its envelope; nil if the value is not of the type.
    ///     An error that it throws is shown.
    public init(_ name: String, text: @escaping @Sendable (_ key: String, _ bytes: [UInt8]) throws -> String?) {
        self.name = name
        self.text = text
    }

    /// A decoder of all values whose keys begin with a prefix.
    ///
    /// - Parameters:
    ///   - type: The type of the values.
    ///   - prefix: The beginning of the keys.
    ///   - text: The text of a value; its description by default.
    /// - Returns: The decoder; it shows the error for a value that is not of the type.
    public static func values<Value: Codable & Sendable>(
        of type: Value.Type, prefix: String, text: @escaping @Sendable (Value) -> String = { "\($0)" }
    ) -> InspectorDecoder {
        InspectorDecoder("\(type)") { key, bytes in
            guard key.utf8.starts(with: prefix.utf8) else { return nil }
            return text(try ValueCoder().decode(Value.self, from: Array(bytes)))
        }
    }
}
