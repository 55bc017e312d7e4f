import ForgeCoding
import Foundation

/// A value as the page shows it.
struct ShownValue: Encodable, Sendable {
    /// The type as far as the bytes tell it: `string`, `array`, `date` and so on; `undecodable` with the reason.
    var type: String
    /// The version of the type, as the app numbers it; nil for a value without an envelope.
    var version: UInt32?
    /// When the value expires, in seconds since 1970, if an `ExpiringKVStore` has stored it.
    var expiry: Double?
    var isExpiring = false
    /// JSON, or the beginning of the bytes in hexadecimal digits.
    var text: String
    /// Whether the text is JSON that can be edited.
    var isJSON = false
    /// Whether only the beginning is shown.
    var isPreview = false
    /// The texts of the app's decoders.
    var decoded: [Decoded] = []

    struct Decoded: Encodable, Sendable {
        var name: String
        var text: String
    }

    /// The number of bytes of a value that are read, and of characters that are shown.
    static let limit = 64 << 10

    /// - Parameters:
    ///   - bytes: The value, or its beginning.
    ///   - isComplete: Whether the bytes are the whole value.
    ///   - isPretty: Whether JSON has one line per element.
    init(_ bytes: [UInt8], isComplete: Bool, isPretty: Bool) {
        guard isComplete else {
            let payload = Self.payload(ofBeginning: bytes)
            type = payload.first.map { Self.types[Int($0 >> 5)] } ?? "undecodable"
            text = type == "string" ? Self.text(payload) : Self.hexadecimal(bytes)
            isPreview = true
            return
        }
        do {
            let stored = try StoredTree(bytes)
            type = stored.value.typeName
            version = stored.version
            expiry = stored.expiry
            isExpiring = stored.isExpiring
            text = try stored.value.json(prettyPrinted: isPretty)
            isJSON = true
        } catch {
            type = "undecodable"
            text = "\(error)\n\n" + Self.hexadecimal(bytes)
        }
        guard text.utf8.count > Self.limit else { return }
        text = String(decoding: text.utf8.prefix(Self.limit), as: UTF8.self)
        (isPreview, isJSON) = (true, false)
    }

    /// The types by the high three bits of the first byte (RFC 8949, section 3).
    private static let types = ["integer", "integer", "bytes", "string", "array", "map", "tagged", "simple"]

    /// The payload of a value of which only the beginning was read: it follows a byte of the envelope and the version.
    private static func payload(ofBeginning bytes: [UInt8]) -> ArraySlice<UInt8> {
        bytes.dropFirst().drop { $0 & 0x80 != 0 }.dropFirst()
    }

    /// The text of a string of which only the beginning was read, without a partial character.
    private static func text(_ payload: ArraySlice<UInt8>) -> String {
        let lengths: [UInt8: Int] = [24: 1, 25: 2, 26: 4, 27: 8]
        let content = payload.dropFirst(1 + (payload.first.flatMap { lengths[$0 & 0x1F] } ?? 0))
        for omitted in 0...min(3, content.count) {
            if let text = String(validating: content.dropLast(omitted), as: UTF8.self) { return text }
        }
        return hexadecimal(Array(payload))
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        var text = ""
        for (index, byte) in bytes.prefix(limit / 4).enumerated() {
            text += (byte < 16 ? "0" : "") + String(byte, radix: 16) + (index % 32 == 31 ? "\n" : " ")
        }
        return text
    }
}

/// The tree of a stored value, out of the wrapping of an `ExpiringKVStore`.
struct StoredTree {
    var value: CodedValue
    /// The version of the outer envelope, and of the inner one of an expiring value.
    var version: UInt32
    var isExpiring = false
    /// Nil also for a time that is not a number.
    var expiry: Double? { (expiration?.timeIntervalSince1970).flatMap { $0.isFinite ? $0 : nil } }

    private var expiration: Date?
    private var innerVersion: UInt32 = 1

    init(_ bytes: [UInt8]) throws {
        let envelope = try ValueEnvelope(decoding: bytes)
        version = envelope.schemaVersion
        value = try CodedValue(decoding: envelope)
        guard case .map(let entries) = value, entries.count <= 2, case .bytes(let inner)? = value["v"] else { return }
        switch value["e"] {
        case .date(let date)?: expiration = date
        case .null?: break
        case nil: guard entries.count == 1 else { return }
        default: return
        }
        do {
            let envelope = try ValueEnvelope(decoding: inner)
            value = try CodedValue(decoding: envelope)
            (innerVersion, isExpiring) = (envelope.schemaVersion, true)
        } catch {
            expiration = nil  // The value of an app that looks like an expiring one.
        }
    }

    /// The bytes of this value with another content.
    func encoded(_ content: CodedValue) throws -> [UInt8] {
        guard isExpiring else { return try ValueEnvelope(schemaVersion: version, payload: content.encoded()).encoded }
        let inner = try ValueEnvelope(schemaVersion: innerVersion, payload: content.encoded()).encoded
        var entries = [CodedValue.Entry(.string("v"), .bytes(inner))]
        if let expiration { entries.insert(CodedValue.Entry(.string("e"), .date(expiration)), at: 0) }
        return try ValueEnvelope(schemaVersion: version, payload: CodedValue.map(entries).encoded()).encoded
    }
}

extension CodedValue {
    var typeName: String {
        switch self {
        case .null: "null"
        case .bool: "Boolean"
        case .integer, .unsigned: "integer"
        case .float, .double: "number"
        case .string: "string"
        case .bytes: "bytes"
        case .date: "date"
        case .array: "array"
        case .map: "map"
        case .tagged(let tag, _):
            switch tag {
            case 2, 3: "integer"
            case 4: "decimal"
            case 32: "URL"
            case 37: "UUID"
            default: "tagged"
            }
        case .simple: "simple"
        }
    }
}

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
