import ForgeCoding
import Synchronization

/// What a store holds, by name, for everybody who reads: values found here cost no lock and no decoding.
///
/// A hash table with open addressing whose slots, entries and cells are only ever changed by one writer at a time
/// (``TableWriter``) and read meanwhile by anybody. A value is decoded when it is first read and kept so beside its bytes.
/// Encoding and decoding run outside every lock, because they run the code of the value's type.
final class ValueTable: @unchecked Sendable {
    // Invariant of the unchecked conformance: `slots` is an address that is read and changed atomically, and what it leads
    // to stays for as long as a reader that has found it is inside the gate.

    /// How values are encoded, in every store.
    static let coder = ValueCoder(format: .binary)

    let gate = ReadGate()
    private let slots: Atomic<UInt>

    private static let smallestCount = 16

    init() {
        slots = Atomic(UInt(bitPattern: SlotArray(count: Self.smallestCount).address))
    }

    deinit {
        array.forEach { $0.destroy() }
        array.address.deallocate()
    }

    /// A value that could not be decoded, and whether that is told for the first time.
    struct Undecodable: Error {
        var cause: any Error
        var isNews: Bool
    }

    /// What a first look finds.
    private enum Found<Value> {
        case absent
        case value(Value)
        case other(ValueCell)
    }

    /// The value of a key.
    @_specialize(where Value == Int)
    @_specialize(where Value == String)
    @_specialize(where Value == Bool)
    @_specialize(where Value == Double)
    func value<Value>(of key: KVKey<Value>) throws(Undecodable) -> Value? {
        switch look(key) {
        case .absent: return nil
        case .value(let value): return value
        case .other(let cell): return try decode(cell, of: key)
        }
    }

    @inline(__always)
    private func look<Value>(_ key: KVKey<Value>) -> Found<Value> {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        guard let cell = array.find(key.identity)?.cell.pointee.load() else { return .absent }
        return cell._withUnsafeGuaranteedRef { cell in
            if let value = TypedCell<Value>.value(in: cell) { return .value(value) }
            return .other(cell)
        }
    }

    @inline(never)
    private func decode<Value>(_ cell: ValueCell, of key: KVKey<Value>) throws(Undecodable) -> Value {
        let value: Value
        do {
            value = try Self.coder.decode(Value.self, from: cell.bytes)
        } catch {
            throw Undecodable(cause: error, isNews: cell.encoded?.report() ?? true)
        }
        // Of an object every reader gets a copy of its own; and a value that is read as two types is decoded each time.
        if let source = cell as? EncodedCell, !(Value.self is AnyObject.Type) {
            replace(source, by: TypedCell(value, from: source), key.identity)
        }
        return value
    }

    private func replace(_ old: ValueCell, by new: ValueCell, _ name: KeyName) {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        array.find(name)?.cell.pointee.replace(old, by: new)
    }

    // MARK: Whatever the type

    func contains(_ name: KeyName) -> Bool {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        return array.find(name)?.cell.pointee.load() != nil
    }

    /// The cell of a name; it stays as it is for as long as the caller wants it.
    func cell(of name: KeyName) -> ValueCell? {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        return array.find(name)?.cell.pointee.load()?.takeUnretainedValue()
    }

    // MARK: For the writer

    @inline(__always)
    var array: SlotArray {
        // Never zero.
        SlotArray(UnsafeMutableRawPointer(bitPattern: slots.load(ordering: .sequentiallyConsistent)).unsafelyUnwrapped)
    }

    /// Lets readers find another array; the one before is returned for the writer to retire.
    func exchange(_ array: SlotArray) -> SlotArray {
        let old = slots.exchange(UInt(bitPattern: array.address), ordering: .sequentiallyConsistent)
        return SlotArray(UnsafeMutableRawPointer(bitPattern: old).unsafelyUnwrapped)
    }
}

extension ValueTable {
    /// Encodes a value as every store keeps it and calls `body` with the bytes.
    @inline(__always)
    static func withEncoded<Value: Codable & Sendable, Result>(
        _ value: Value, _ key: KVKey<Value>, maximumSize: Int, store: String?,
        _ body: (UnsafeRawBufferPointer) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try key.identity.check(.set, in: store)
        return try coder.withEncoded(value) { (encoded) throws(KVStoreError) in
            switch encoded {
            case .success(let bytes):
                guard bytes.count <= maximumSize else {
                    throw KVStoreError(.valueTooLarge, .set, key: key.name, store: store)
                }
                return try body(bytes)
            case .failure(let error):
                throw KVStoreError(.unencodable, .set, key: key.name, store: store, underlying: error)
            }
        }
    }

    /// The cell for a value that was just encoded.
    @inline(__always)
    static func cell<Value: Codable & Sendable>(
        _ value: Value, _ bytes: UnsafeRawBufferPointer, revision: UInt64
    ) -> ValueCell {
        ExactTypes.contain(Value.self)
            ? TypedCell(exact: value, revision: revision, encodedSize: bytes.count)
            : EncodedCell(Array(bytes), revision: revision)
    }
}
