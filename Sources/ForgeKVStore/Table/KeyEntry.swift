import Synchronization

/// The place of one key in a table: its name, and the cell with its value. It stays where it is for as long as the table
/// that leads to it does.
struct KeyEntry {
    /// The cell, the hash, the length of the name, and its bytes.
    let address: UnsafeMutableRawPointer

    private static let nameOffset = 24

    /// An entry for a name, without a value.
    init(_ name: KeyName) {
        address = .allocate(byteCount: Self.nameOffset + name.count, alignment: 8)
        address.bindMemory(to: CellReference.self, capacity: 1).initialize(to: CellReference())
        address.storeBytes(of: name.hash, toByteOffset: 8, as: UInt64.self)
        address.storeBytes(of: name.count, toByteOffset: 16, as: Int.self)
        name.withBytes { bytes in
            UnsafeMutableRawBufferPointer(start: address + Self.nameOffset, count: bytes.count).copyMemory(from: bytes)
        }
    }

    @inline(__always)
    init(_ address: UnsafeMutableRawPointer) {
        self.address = address
    }

    @inline(__always)
    var cell: UnsafeMutablePointer<CellReference> { address.assumingMemoryBound(to: CellReference.self) }

    var hash: UInt64 { address.load(fromByteOffset: 8, as: UInt64.self) }

    var name: KeyName { KeyName(String(decoding: nameBytes, as: UTF8.self)) }

    var nameCount: Int { address.load(fromByteOffset: 16, as: Int.self) }

    @inline(__always)
    func isNamed(_ name: KeyName) -> Bool {
        let own = nameBytes
        return name.withBytes { $0.count == own.count && $0.isEqual(to: own) }
    }

    @inline(__always)
    private var nameBytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: address + Self.nameOffset, count: nameCount)
    }

    /// Gives up the value and the memory; nobody may be looking.
    func destroy() {
        cell.pointee.exchange(nil)?.release()
        cell.deinitialize(count: 1)
        address.deallocate()
    }

    /// How much memory it takes.
    var sizeInBytes: Int { Self.nameOffset + nameCount }
}

/// A reference to a cell, or to none, that is changed at once: whoever reads it finds the one before or the one after.
struct CellReference: ~Copyable {
    /// The address of a cell that this reference owns; 0 for none.
    private let bits = Atomic<UInt>(0)

    /// The cell, which lives for as long as the reader is inside the gate.
    @inline(__always)
    borrowing func load() -> Unmanaged<ValueCell>? {
        UnsafeRawPointer(bitPattern: bits.load(ordering: .sequentiallyConsistent)).map { Unmanaged.fromOpaque($0) }
    }

    /// Puts a cell, which the reference owns from then on, in the place of the present one, which the caller owns then.
    @inline(__always)
    borrowing func exchange(_ cell: Unmanaged<ValueCell>?) -> Unmanaged<ValueCell>? {
        let new = cell.map { UInt(bitPattern: $0.toOpaque()) } ?? 0
        let old = bits.exchange(new, ordering: .sequentiallyConsistent)
        return UnsafeRawPointer(bitPattern: old).map { Unmanaged.fromOpaque($0) }
    }

    /// Puts a cell that keeps `old` alive in its place, unless somebody else has put another there.
    borrowing func replace(_ old: ValueCell, by cell: ValueCell) {
        let expected = UInt(bitPattern: Unmanaged.passUnretained(old).toOpaque())
        let new = Unmanaged.passRetained(cell)
        let outcome = bits.compareExchange(
            expected: expected, desired: UInt(bitPattern: new.toOpaque()), ordering: .sequentiallyConsistent)
        // The reference's hold on the old cell passes to nobody: the new one has its own.
        if outcome.exchanged { Unmanaged.passUnretained(old).release() } else { new.release() }
    }
}
