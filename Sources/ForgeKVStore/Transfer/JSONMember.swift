import ForgeCoding

/// The JSON form of a value: the value itself, or an object with its schema version and the value, if the version is
/// not 1 or the value could be mistaken for such an object.
struct JSONMember {
    private static let schema = "@schema"
    private static let value = "@value"

    /// The maximum nesting depth of a value, plus the object around it.
    static let maximumDepth = CodedValue.maximumDepth + 1

    /// The value in its envelope.
    let bytes: [UInt8]

    init(_ tree: CodedValue) throws {
        if case .map(let entries) = tree, entries.count == 2, case .integer(let number)? = tree[Self.schema],
            let version = UInt32(exactly: number), let value = tree[Self.value]
        {
            bytes = try Self.envelope(value, version)
        } else {
            bytes = try Self.envelope(tree, 1)
        }
    }

    private static func envelope(_ tree: CodedValue, _ version: UInt32) throws -> [UInt8] {
        ValueEnvelope(schemaVersion: version, payload: try tree.encoded()).encoded
    }

    /// The JSON form of a value in its envelope.
    static func tree(of bytes: [UInt8]) throws -> CodedValue {
        let envelope = try ValueEnvelope(decoding: bytes)
        let tree = try CodedValue(decoding: envelope)
        guard envelope.schemaVersion != 1 || tree[schema] != nil else { return tree }
        return .map([
            .init(.string(schema), .integer(Int64(envelope.schemaVersion))), .init(.string(value), tree),
        ])
    }
}
