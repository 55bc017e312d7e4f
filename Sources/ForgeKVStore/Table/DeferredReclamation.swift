/// The memory and values that a writer has unlinked from a table and keeps until a grace period has passed.
struct DeferredReclamation: ~Copyable, @unchecked Sendable {
    // Invariant of the unchecked conformance: the records of threads are atomic and never freed.

    /// Memory and values that no reader can refer to any more. Destroying this frees them, outside every lock: freeing
    /// a value may run code of its type.
    struct Garbage: ~Copyable, @unchecked Sendable {
        // Invariant of the unchecked conformance: cells are Sendable, and the memory has no other owner.

        /// Each owned by this.
        fileprivate var cells: ContiguousArray<Unmanaged<ValueCell>> = []
        fileprivate var texts: ContiguousArray<String> = []
        fileprivate var memory: [UnsafeMutableRawPointer] = []

        /// Entries whose value was retired separately.
        fileprivate var entries: [KeyEntry] = []
        private let pool: EntryPool

        init(_ pool: EntryPool) {
            self.pool = pool
        }

        deinit {
            for cell in cells { cell.release() }
            for address in memory { address.deallocate() }
        }

        fileprivate var count: Int { cells.count + texts.count }

        fileprivate var isEmpty: Bool { count == 0 && memory.isEmpty && entries.isEmpty }

        /// Called by the writer, under its lock.
        fileprivate mutating func giveBackEntries() {
            for entry in entries {
                pool.giveBack(entry.address, entry.sizeInBytes)
            }
            entries = []
        }
    }

    /// Retired since the present grace period began.
    private var current: Garbage
    private var currentSize = 0

    /// Retired before it began.
    private var waiting: Garbage
    private var gracePeriod = GracePeriod()

    /// How much is retired before a grace period begins, since beginning one costs as much as a short system call.
    private static let batchCount = 512
    private static let batchSize = 1 << 20

    /// Grows while the system refuses to order readers: a writer then asks ever less often.
    private var batches = 1

    /// How much may wait for a reader that does not leave its section; after that the writer waits too.
    private static let limit = 64 << 20

    private let pool: EntryPool

    init(_ pool: EntryPool) {
        self.pool = pool
        current = Garbage(pool)
        waiting = Garbage(pool)
    }

    /// Takes over the content of an entry that readers do not find any more.
    @inline(__always)
    mutating func retire(_ content: EntryContent) {
        if let cell = content.ownCell {
            currentSize += content.encodedSize + ValueCell.overhead
            current.cells.append(cell)
        } else if let text = InlineTypes.text(content) {
            currentSize += content.encodedSize
            current.texts.append(text)
        }
    }

    /// Takes over an entry without a value that readers do not find any more.
    mutating func retire(_ entry: KeyEntry) {
        currentSize += entry.sizeInBytes
        current.entries.append(entry)
    }

    /// Takes over memory that readers do not find any more. It is large and retired rarely, so it is collected next.
    mutating func retire(_ memory: UnsafeMutableRawPointer, sizeInBytes: Int) {
        currentSize += max(sizeInBytes, Self.batchSize)
        current.memory.append(memory)
    }

    /// Whether enough was retired to call ``collect()``.
    @inline(__always)
    var isDue: Bool { current.count >= Self.batchCount * batches || currentSize >= Self.batchSize * batches }

    /// The memory and values that no reader can refer to any more.
    mutating func collect() -> Garbage {
        var collected = Garbage(pool)
        repeat {
            guard gracePeriod.isOver() else { continue }
            takeWaiting(&collected)
            guard let next = GracePeriod.begin() else {
                // Kept for as long as the table lives, unless the system orders readers again.
                batches = min(batches * 2, 1 << 20)
                break
            }
            batches = 1
            swap(&waiting, &current)
            currentSize = 0
            gracePeriod = next
            // Unless a reader is inside a section right now, the grace period is over.
            if collected.isEmpty, gracePeriod.isOver() { takeWaiting(&collected) }
        } while currentSize > Self.limit
        return collected
    }

    private mutating func takeWaiting(_ collected: inout Garbage) {
        swap(&collected, &waiting)
        collected.giveBackEntries()
    }
}
