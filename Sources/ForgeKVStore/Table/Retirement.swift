import Synchronization

/// What a writer has taken out of a table and keeps until no reader can be looking at it any more.
struct Retirement: ~Copyable {
    /// Things that nobody can see any more; they go when this goes, which should be outside every lock: with a value may
    /// go code of its type.
    struct Garbage: ~Copyable {
        fileprivate var cells: ContiguousArray<ValueCell> = []
        fileprivate var memory: [UnsafeMutableRawPointer] = []

        init() {}

        deinit {
            for address in memory { address.deallocate() }
        }

        fileprivate var count: Int { cells.count + memory.count }
    }

    private let gate: ReadGate

    /// Retired since the batch before was closed.
    private var current = Garbage()
    private var currentSize = 0

    /// Waiting for the stripes in `pending`, one bit each.
    private var waiting = Garbage()
    private var pending: UInt32 = 0

    private static let batchCount = 64
    private static let batchSize = 1 << 20

    /// How much may wait for a reader that does not come out; after that the writer waits too.
    private static let limit = 64 << 20

    init(_ gate: ReadGate) {
        self.gate = gate
    }

    /// Takes over a value that no reader finds any more.
    mutating func retire(_ cell: consuming ValueCell) {
        currentSize += cell.sizeInBytes
        current.cells.append(cell)
    }

    /// Takes over memory in which no reader arrives any more.
    mutating func retire(_ memory: UnsafeMutableRawPointer, sizeInBytes: Int) {
        currentSize += sizeInBytes
        current.memory.append(memory)
    }

    /// Whether it is worth the while to ask for garbage.
    @inline(__always)
    var isDue: Bool { current.count >= Self.batchCount || currentSize >= Self.batchSize }

    /// What nobody can see any more.
    mutating func collect() -> Garbage {
        var collected = Garbage()
        repeat {
            if pending == 0, waiting.count == 0 {
                swap(&waiting, &current)
                currentSize = 0
                pending = waiting.count == 0 ? 0 : UInt32.max >> UInt32(32 - ReadGate.stripeCount)
            }
            for number in 0..<ReadGate.stripeCount where pending & (1 << UInt32(number)) != 0 && gate.isEmpty(number) {
                pending &= ~(1 << UInt32(number))
            }
            if pending == 0, collected.count == 0 { swap(&collected, &waiting) }
        } while currentSize > Self.limit && collected.count == 0
        return collected
    }
}
