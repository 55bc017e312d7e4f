import Synchronization

/// The way into a table for who reads: two addresses, so that a look costs no reference counting. It is good for as long
/// as the ``ValueTable`` that it is of.
struct TableView {
    private let gate = ReadGate.Entrance()
    private let root: UnsafeMutablePointer<Root>

    private struct Root: ~Copyable {
        /// Where the present slots are.
        let slots: Atomic<UInt>

        /// Whether there may be values that the table does not hold yet.
        let isPartial = Atomic(false)
    }

    init(_ array: SlotArray) {
        root = .allocate(capacity: 1)
        root.initialize(to: Root(slots: Atomic(array.bits)))
    }

    /// Gives the slots up; nobody may be reading.
    func destroy() {
        array.deallocate()
        root.deinitialize(count: 1)
        root.deallocate()
    }

    /// The present slots, for who is inside the gate, and for the writer.
    @inline(__always)
    var array: SlotArray {
        SlotArray(bits: root.pointee.slots.load(ordering: .sequentiallyConsistent))
    }

    /// Lets readers find another array; the one before is returned for the writer to retire.
    func exchange(_ array: SlotArray) -> SlotArray {
        SlotArray(bits: root.pointee.slots.exchange(array.bits, ordering: .sequentiallyConsistent))
    }

    /// Whether a name that is not found may have a value elsewhere.
    var isPartial: Bool {
        get { root.pointee.isPartial.load(ordering: .acquiring) }
        nonmutating set { root.pointee.isPartial.store(newValue, ordering: .releasing) }
    }

    /// Why a look ended without a value and without the certainty that there is none.
    enum Interruption: Error {
        /// The writer is in the middle of changing the entry: wait for it.
        case busy

        /// The value has to be decoded.
        case encoded(ValueCell)

        /// The table does not hold the name, and not all that there is.
        case elsewhere
    }

    /// How many times an entry is looked at that the writer is changing: it takes a few nanoseconds, unless its thread was
    /// stopped in the middle of it.
    private static let patience = 64

    /// The value of a key.
    @_specialize(where Value == Int)
    @_specialize(where Value == String)
    @_specialize(where Value == Bool)
    @_specialize(where Value == Double)
    func value<Value>(of key: KVKey<Value>) throws(Interruption) -> Value? {
        let pass = gate.enter()
        guard let entry = array.find(key.identity) else {
            gate.leave(pass)
            if isPartial { throw .elsewhere }
            return nil
        }
        for _ in 0..<Self.patience {
            let version = entry.version
            let kind = entry.kind
            let words = entry.words
            guard entry.isStill(version) else { continue }
            // Without a variable of the type `Value?`, for whose sake every call would ask the runtime for that type.
            if kind > EntryContent.cell, kind == InlineTypes.kind(of: Value.self), key.schema == nil {
                defer { gate.leave(pass) }
                return InlineTypes.value(words, as: Value.self)
            }
            if kind == EntryContent.cell, let address = UnsafeRawPointer(bitPattern: words.0) {
                let cell = Unmanaged<ValueCell>.fromOpaque(address)
                if cell._withUnsafeGuaranteedRef({ $0.type == .decoded(key) }) {
                    defer { gate.leave(pass) }
                    return cell._withUnsafeGuaranteedRef { TypedCell<Value>.value(in: $0) }
                }
            }
            if kind == EntryContent.nothing {
                gate.leave(pass)
                return nil
            }
            let content = entry.content
            guard entry.isStill(version), let cell = content.asCell else { continue }
            gate.leave(pass)
            throw .encoded(cell)
        }
        gate.leave(pass)
        throw .busy
    }

    /// The cell of a name; it stays as it is for as long as the caller wants it.
    func cell(of name: KeyName) throws(Interruption) -> ValueCell? {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        guard let entry = array.find(name) else {
            if isPartial { throw .elsewhere }
            return nil
        }
        for _ in 0..<Self.patience {
            let version = entry.version
            let content = entry.content
            if entry.isStill(version) { return content.asCell }
        }
        throw .busy
    }

    /// Whether a name has a value.
    func contains(_ name: KeyName) throws(Interruption) -> Bool {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        guard let entry = array.find(name) else {
            if isPartial { throw .elsewhere }
            return false
        }
        return entry.kind != EntryContent.nothing
    }

    /// Whether it is told for the first time that the value of a name cannot be read.
    func report(_ cell: ValueCell, of name: KeyName) -> Bool {
        let pass = gate.enter()
        defer { gate.leave(pass) }
        return array.find(name)?.report(cell.revision) ?? true
    }
}

/// A value that could not be decoded, and whether that is told for the first time.
struct UndecodableValue: Error {
    var cause: any Error
    var isNews: Bool
}
