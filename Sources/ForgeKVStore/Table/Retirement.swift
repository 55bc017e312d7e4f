import Synchronization

/// What a writer has taken out of a table and keeps until no reader can be looking at it any more.
struct Retirement: ~Copyable, @unchecked Sendable {
    // Invariant of the unchecked conformance: the records of threads are atomic and never freed.

    /// Things that nobody can see any more; they go when this goes, which should be outside every lock: with a value may
    /// go code of its type.
    struct Garbage: ~Copyable, @unchecked Sendable {
        // Invariant of the unchecked conformance: cells are Sendable, and the memory has no other owner.

        /// Each owned by this.
        fileprivate var cells: ContiguousArray<Unmanaged<ValueCell>> = []
        fileprivate var memory: [UnsafeMutableRawPointer] = []

        init() {}

        deinit {
            for cell in cells { cell.release() }
            for address in memory { address.deallocate() }
        }

        fileprivate var count: Int { cells.count + memory.count }
    }

    /// Retired since the batch before was closed.
    private var current = Garbage()
    private var currentSize = 0

    /// Waiting for those who could still be looking.
    private var waiting = Garbage()
    private var visitors = ReadGate.Visitors()

    /// A batch is large because finding out who is inside costs as much as a short system call.
    private static let batchCount = 512
    private static let batchSize = 1 << 20

    /// How much may wait for a reader that does not come out; after that the writer waits too.
    private static let limit = 64 << 20

    init() {}

    /// Takes over a value that no reader finds any more, and that takes about `sizeInBytes` of memory.
    @inline(__always)
    mutating func retire(_ cell: Unmanaged<ValueCell>, sizeInBytes: Int) {
        currentSize += sizeInBytes
        current.cells.append(cell)
    }

    /// Takes over memory in which no reader arrives any more.
    mutating func retire(_ memory: UnsafeMutableRawPointer, sizeInBytes: Int) {
        currentSize += sizeInBytes
        current.memory.append(memory)
    }

    /// Whether it is worth the while to ask for garbage.
    @inline(__always)
    var isDue: Bool { current.cells.count >= Self.batchCount || currentSize >= Self.batchSize }

    /// What nobody can see any more.
    mutating func collect() -> Garbage {
        var collected = Garbage()
        repeat {
            guard visitors.haveLeft() else { continue }
            swap(&collected, &waiting)
            swap(&waiting, &current)
            currentSize = 0
            current.cells.reserveCapacity(Self.batchCount)
            visitors = .now()
        } while currentSize > Self.limit
        return collected
    }
}
