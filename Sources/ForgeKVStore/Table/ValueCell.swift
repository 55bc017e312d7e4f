import ForgeCoding
import Foundation

// Memory safety: The bytes of a short value are in the cell itself, of which `encodedSize` count. Memory for a copy
// has the type that the caller has compared with the cell's.

/// A value in a table, with the revision of the write that stored it. It never changes: a new value is a new cell.
class ValueCell: @unchecked Sendable {
    // Invariant of the unchecked conformance: all that the subclasses hold is immutable and Sendable.

    /// The number of the write that stored the value.
    let revision: UInt64

    /// How many bytes the encoded value has.
    let encodedSize: Int

    /// Its type, as far as it is known.
    let type: CellType

    fileprivate init(revision: UInt64, encodedSize: Int, type: CellType) {
        self.revision = revision
        self.encodedSize = encodedSize
        self.type = type
    }

    /// The encoded value.
    var bytes: [UInt8] { [] }

    /// Initializes memory with a copy of the decoded value.
    func copyValue(to memory: UnsafeMutableRawPointer) {
        preconditionFailure("the value is not decoded")
    }

    /// About how much memory a cell takes beside the encoded value.
    static let overhead = 96
}

/// A value as its bytes, not yet decoded.
class EncodedCell: ValueCell, @unchecked Sendable {
    private final let content: [UInt8]

    init(_ bytes: [UInt8], revision: UInt64, type: CellType = .unknown) {
        content = bytes
        super.init(revision: revision, encodedSize: bytes.count, type: type)
    }

    fileprivate init(size: Int, revision: UInt64, type: CellType) {
        content = []
        super.init(revision: revision, encodedSize: size, type: type)
    }

    /// A cell with a copy of bytes.
    static func copying(_ bytes: UnsafeRawBufferPointer, revision: UInt64, type: CellType) -> EncodedCell {
        unsafe bytes.count <= ShortEncodedCell.capacity
            ? ShortEncodedCell(bytes, revision: revision, type: type)
            : EncodedCell(Array(bytes), revision: revision, type: type)
    }

    override var bytes: [UInt8] { content }
}

/// Few bytes, in the cell itself.
private final class ShortEncodedCell: EncodedCell, @unchecked Sendable {
    private typealias Content = (
        UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64
    )

    static let capacity = MemoryLayout<Content>.size

    private let content: Content

    /// - Precondition: There are no more bytes than the ``capacity``.
    init(_ bytes: UnsafeRawBufferPointer, revision: UInt64, type: CellType) {
        var content: Content = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        unsafe withUnsafeMutableBytes(of: &content) { unsafe $0.copyMemory(from: bytes) }
        self.content = content
        super.init(size: bytes.count, revision: revision, type: type)
    }

    override var bytes: [UInt8] { unsafe withUnsafeBytes(of: content) { unsafe Array($0.prefix(encodedSize)) } }
}

/// A decoded value of one type.
final class TypedCell<Value: Codable & Sendable>: ValueCell, @unchecked Sendable {
    private let value: Value

    /// The cell from which it was decoded.
    private let source: EncodedCell

    init(_ value: Value, from source: EncodedCell, _ key: KVKey<Value>) {
        self.value = value
        self.source = source
        super.init(revision: source.revision, encodedSize: source.encodedSize, type: .decoded(key))
    }

    override var bytes: [UInt8] { source.bytes }

    override func copyValue(to memory: UnsafeMutableRawPointer) {
        unsafe memory.assumingMemoryBound(to: Value.self).initialize(to: value)
    }
}

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

    /// Whether values of both are of the same type, decoded or not. The other one is known.
    @inline(__always)
    func isSame(as other: CellType) -> Bool {
        identity == other.identity && version == other.version && version != Self.opaqueVersion
    }

    /// Whether a value that is stored inline in an entry is of this type.
    @inline(__always)
    func isKind(_ kind: UInt8) -> Bool {
        version == 0 && kind != EntryContent.encoded && identity == ObjectIdentifier(InlineTypes.type(kind))
    }
}

/// Tells values that share no mutable state with their copies.
///
/// A store keeps such values decoded and gives every reader a copy. Any other is decoded by every read, so that an
/// object in it belongs to one reader alone.
enum ValueSemantics {
    /// Whether a value certainly shares nothing that can be changed with its copies.
    ///
    /// It contains no object, function or pointer, except inside types of the standard library and Foundation that copy
    /// on write. The content of the value decides, not that of its type: an enum case or an empty optional
    /// without an object is like a number.
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
