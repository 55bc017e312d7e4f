/// What is known of the type of a value in a cell: looked at before a cell is taken for a ``TypedCell``.
///
/// Two versions of a type are two types here, for what they mean may be different.
struct CellType: Sendable, Equatable {
    private let identity: ObjectIdentifier?

    /// Zero for a type that has only ever had one version, ``opaqueVersion`` for one of a layer.
    private let version: UInt32

    private let isDecoded: Bool

    /// The version of a layer's type, which says nothing about the type of the value in it: every write has to look.
    static var opaqueVersion: UInt32 { .max }

    /// Bytes of which nothing is known.
    static let unknown = CellType(identity: nil, version: 0, isDecoded: false)

    private init(identity: ObjectIdentifier?, version: UInt32, isDecoded: Bool) {
        self.identity = identity
        self.version = version
        self.isDecoded = isDecoded
    }

    /// The encoding of a value of a key.
    @inline(__always)
    static func encoded<Value>(_ key: KVKey<Value>) -> CellType {
        CellType(identity: ObjectIdentifier(Value.self), version: key.schema?.cellVersion ?? 0, isDecoded: false)
    }

    /// The encoding of a value of a type that has only ever had one version.
    static func encoded(_ type: Any.Type) -> CellType {
        CellType(identity: ObjectIdentifier(type), version: 0, isDecoded: false)
    }

    /// A decoded value of a key.
    @inline(__always)
    static func decoded<Value>(_ key: KVKey<Value>) -> CellType {
        CellType(identity: ObjectIdentifier(Value.self), version: key.schema?.version ?? 0, isDecoded: true)
    }

    /// What a reader compares to learn, without looking into a cell, that it holds a decoded value of a type: not zero,
    /// and different for different types and versions. Zero for anything else, and for the rare version or address that
    /// does not fit: such a value is decoded by every read.
    @inline(__always)
    var decodedTag: UInt64 {
        guard isDecoded, let identity else { return 0 }
        let address = UInt64(UInt(bitPattern: identity))
        guard address >> 48 == 0, version >> 16 == 0 else { return 0 }
        return address | UInt64(version) << 48
    }

    /// Whether values of both are of the same type, decoded or not.
    @inline(__always)
    func isSame(as other: CellType) -> Bool {
        identity != nil && identity == other.identity && version == other.version && version != Self.opaqueVersion
    }

    /// Whether a value that stands in an entry itself is of this type.
    @inline(__always)
    func isKind(_ kind: UInt8) -> Bool {
        version == 0 && kind != EntryContent.encoded && identity == ObjectIdentifier(InlineTypes.type(kind))
    }
}
