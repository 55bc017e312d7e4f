/// The type of the value in a cell, checked before a cell is downcast to ``TypedCell``.
///
/// Two versions of a type count as two types: their values may have different meanings.
struct CellType: Sendable, Equatable {
    private let identity: ObjectIdentifier?

    /// Zero for a type with a single version, ``opaqueVersion`` for a wrapper type that a layer stores.
    private let version: UInt32

    private let isDecoded: Bool

    /// The version of a layer's wrapper type. It does not determine the type of the wrapped value, so every write
    /// checks that.
    static var opaqueVersion: UInt32 { .max }

    /// Bytes of unknown type.
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

    /// The encoding of a value of a type with a single version.
    static func encoded(_ type: Any.Type) -> CellType {
        CellType(identity: ObjectIdentifier(type), version: 0, isDecoded: false)
    }

    /// A decoded value of a key.
    @inline(__always)
    static func decoded<Value>(_ key: KVKey<Value>) -> CellType {
        CellType(identity: ObjectIdentifier(Value.self), version: key.schema?.version ?? 0, isDecoded: true)
    }

    /// Identifies the type and version of a decoded value, so that a reader can check them without access to the cell.
    ///
    /// Zero for values that are not decoded, and for a version or address that does not fit: such a value is decoded by
    /// every read.
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

    /// Whether a value that is stored inline in an entry is of this type.
    @inline(__always)
    func isKind(_ kind: UInt8) -> Bool {
        version == 0 && kind != EntryContent.encoded && identity == ObjectIdentifier(InlineTypes.type(kind))
    }
}
