import ForgeCoding
import Synchronization

/// The way into a table for who reads: two addresses, so that a look costs no reference counting. It is good for as long
/// as the ``ValueTable`` that it is of.
struct TableView {
    private let gate = ReadGate.Entrance()

    /// Where the address of the present slots stands.
    private let slots: UnsafeMutablePointer<Reference>

    private struct Reference: ~Copyable {
        let address: Atomic<UInt>
    }

    init(_ array: SlotArray) {
        slots = .allocate(capacity: 1)
        slots.initialize(to: Reference(address: Atomic(UInt(bitPattern: array.address))))
    }

    /// Gives everything up; nobody may be reading.
    func destroy() {
        array.forEach { $0.destroy() }
        array.address.deallocate()
        slots.deallocate()
    }

    /// The present slots, for who is inside the gate, and for the writer.
    @inline(__always)
    var array: SlotArray {
        let bits = slots.pointee.address.load(ordering: .sequentiallyConsistent)
        // Never zero.
        return SlotArray(UnsafeMutableRawPointer(bitPattern: bits).unsafelyUnwrapped)
    }

    /// Lets readers find another array; the one before is returned for the writer to retire.
    func exchange(_ array: SlotArray) -> SlotArray {
        let old = slots.pointee.address.exchange(UInt(bitPattern: array.address), ordering: .sequentiallyConsistent)
        return SlotArray(UnsafeMutableRawPointer(bitPattern: old).unsafelyUnwrapped)
    }

    // MARK: Reading

    /// The value of a key.
    @_specialize(where Value == Int)
    @_specialize(where Value == String)
    @_specialize(where Value == Bool)
    @_specialize(where Value == Double)
    func value<Value>(of key: KVKey<Value>) throws(UndecodableValue) -> Value? {
        let pass = gate.enter()
        guard let cell = array.find(key.identity)?.cell.pointee.load() else {
            gate.leave(pass)
            return nil
        }
        if let value = cell._withUnsafeGuaranteedRef({ TypedCell<Value>.value(in: $0, key) }) {
            gate.leave(pass)
            return value
        }
        let kept = cell.takeUnretainedValue()
        gate.leave(pass)
        return try decode(kept, of: key)
    }

    @inline(never)
    private func decode<Value>(_ cell: ValueCell, of key: KVKey<Value>) throws(UndecodableValue) -> Value {
        let value: Value
        do {
            value = try ValueTable.decode(cell.bytes, as: key)
        } catch {
            throw UndecodableValue(cause: error, isNews: (cell.encoded ?? cell).report())
        }
        // Of an object every reader gets a copy of its own; and a value that is read as two types is decoded each time.
        if let source = cell as? EncodedCell, !(Value.self is AnyObject.Type) {
            replace(source, by: TypedCell.cell(value, from: source, key), key.identity)
        }
        return value
    }

    private func replace(_ old: ValueCell, by new: ValueCell, _ name: KeyName) {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        array.find(name)?.cell.pointee.replace(old, by: new)
    }

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
}

/// A value that could not be decoded, and whether that is told for the first time.
struct UndecodableValue: Error {
    var cause: any Error
    var isNews: Bool
}
