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
        fileprivate var texts: ContiguousArray<String> = []
        fileprivate var memory: [UnsafeMutableRawPointer] = []

        /// Without values.
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

        /// For the writer.
        fileprivate mutating func giveBackEntries() {
            for entry in entries {
                pool.giveBack(entry.address, entry.sizeInBytes)
            }
            entries = []
        }
    }

    /// Retired since the batch before was closed.
    private var current: Garbage
    private var currentSize = 0

    /// Waiting for those who could still be looking.
    private var waiting: Garbage
    private var visitors = ReadGate.Visitors()

    /// A batch is large because finding out who is inside costs as much as a short system call.
    private static let batchCount = 512
    private static let batchSize = 1 << 20

    /// How much may wait for a reader that does not come out; after that the writer waits too.
    private static let limit = 64 << 20

    private let pool: EntryPool

    init(_ pool: EntryPool) {
        self.pool = pool
        current = Garbage(pool)
        waiting = Garbage(pool)
    }

    /// Takes over what stood in an entry, where no reader finds it any more.
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

    /// Takes over an entry without a value that no reader finds any more.
    mutating func retire(_ entry: KeyEntry) {
        currentSize += entry.sizeInBytes
        current.entries.append(entry)
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
        var collected = Garbage(pool)
        repeat {
            guard visitors.haveLeft() else { continue }
            swap(&collected, &waiting)
            swap(&waiting, &current)
            currentSize = 0
            visitors = .now()
            collected.giveBackEntries()
        } while currentSize > Self.limit
        return collected
    }
}
