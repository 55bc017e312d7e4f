import CForgeKVStore

// Memory safety: Memory that a reader may have found is freed only after every reader of that time has left its
// critical section.

/// The memory and values that a writer has unlinked from a table and keeps until a grace period has passed.
struct DeferredReclamation: ~Copyable, @unchecked Sendable {
    // Invariant of the unchecked conformance: the records of threads are atomic and never freed.

    /// Memory and values that no reader can refer to any more. Destroying this frees them, outside every lock: freeing
    /// a value may run code of its type.
    @safe
    struct Garbage: ~Copyable, @unchecked Sendable {
        // Invariant of the unchecked conformance: cells are Sendable, and the memory has no other owner.

        /// Each owned by this.
        fileprivate var cells: ContiguousArray<Unmanaged<ValueCell>> = unsafe []
        fileprivate var texts: ContiguousArray<String> = []
        fileprivate var memory: [UnsafeMutableRawPointer] = unsafe []

        /// Entries whose value was retired separately.
        fileprivate var entries: [KeyEntry] = []
        private let pool: EntryPool

        init(_ pool: EntryPool) {
            self.pool = pool
        }

        deinit {
            unsafe cells.forEach { unsafe $0.release() }
            unsafe memory.forEach { unsafe $0.deallocate() }
        }

        fileprivate var count: Int { unsafe cells.count + texts.count }

        fileprivate var isEmpty: Bool { unsafe count == 0 && memory.isEmpty && entries.isEmpty }

        /// Called by the writer, under its lock.
        fileprivate mutating func giveBackEntries() {
            for entry in entries {
                unsafe pool.giveBack(entry.address, entry.sizeInBytes)
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

    /// Grows while the system refuses to order readers: the writer then retries less often.
    private var batches = 1

    /// How much may wait for a reader that does not leave its section; after that the writer spins until it has left.
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
        if let cell = unsafe content.ownCell {
            currentSize += content.encodedSize + ValueCell.overhead
            unsafe current.cells.append(cell)
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
        unsafe current.memory.append(memory)
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

/// Read-copy update for the tables of the process: readers take no lock and never wait, and a writer frees what it has
/// unlinked only after a grace period.
///
/// Each thread counts the read-side critical sections that it enters and leaves, in a record that no other thread
/// writes. This is the `membarrier` flavour of liburcu (Desnoyers et al., "User-Level Implementations of Read-Copy
/// Update", 2012): the writer makes the threads of the process pass a fence, so that readers need none. Where the
/// system cannot do that, each reader passes a fence of its own.
///
/// All tables share the records: there is one per thread, not per table. Every ``TableView`` has a copy of this, so
/// that a reader need not ask how to enter.
struct ReadDomain: Sendable {
    private let writerFencesReaders = forge_writer_fences_readers()

    /// Enters a read-side critical section: what is found in a table from now on stays allocated until the section is
    /// left.
    @inline(__always)
    func enter() -> ReadGuard { unsafe ReadGuard(reader: forge_enter(writerFencesReaders)) }
}

/// The threads that were inside a read-side critical section when the grace period began and have not left it since.
@safe
struct GracePeriod {
    private var readers: [(record: UnsafeMutablePointer<forge_reader>, passes: Int)] = unsafe []

    /// A grace period that is over.
    init() {}

    /// Begins a grace period; sections that are entered later cannot find what was unlinked before. Nil if the system
    /// refuses to order the threads: nothing may be freed then.
    static func begin() -> GracePeriod? {
        guard forge_fence_readers() != 0 else { return nil }
        var period = GracePeriod()
        var next = unsafe forge_first_reader()
        while let record = unsafe next {
            let passes = unsafe forge_reader_passes(record)
            // Odd inside a section.
            if passes % 2 == 1 { unsafe period.readers.append((record, passes)) }
            unsafe next = record.pointee.next
        }
        return period
    }

    /// Whether all sections that it waits for have been left.
    mutating func isOver() -> Bool {
        unsafe readers.removeAll { unsafe forge_reader_passes($0.record) != $0.passes }
        return unsafe readers.isEmpty
    }
}

/// A read-side critical section that the thread is inside, to be left exactly once.
///
/// Numbers and truth values that were read from an entry are plain words and may be used after ``leave()``. What holds
/// a reference comes out by one of the other methods, all of which copy in `forge_copy_and_leave`; why that is safe is
/// written there.
@safe
struct ReadGuard {
    fileprivate let reader: UnsafeMutablePointer<forge_reader>

    @inline(__always)
    init(reader: UnsafeMutablePointer<forge_reader>) {
        unsafe self.reader = reader
    }

    @inline(__always)
    func leave() { unsafe forge_leave(reader) }

    /// Leaves the section and returns a copy of the text in `words`, as a value of the type `Value`, which is `String`.
    @inline(__always)
    func leave<Value>(copyingText words: EntryContent.Words, as type: Value.Type) -> Value {
        var words = words
        return unsafe copyAndLeave(copyText, &words, reader)
    }

    /// Leaves with a copy of the value in a ``TypedCell`` of the type `Value`; never nil.
    ///
    /// Returns an optional and is never inlined: otherwise the compiler makes the copy in a temporary and moves it, and
    /// the move stalls on the stores that have just been made.
    @inline(never)
    func leave<Value>(copyingValueOf cell: UnsafeRawPointer) -> Value? {
        let copy: Value = unsafe copyAndLeave(copyValue, cell, reader)
        return .some(copy)
    }

    /// Leaves with a cell.
    @inline(never)
    func leave(retaining cell: UnsafeRawPointer) -> ValueCell {
        unsafe copyAndLeave(retainCell, cell, reader)
    }
}

/// `forge_copy_and_leave`: calls `copier`, which initializes the result with a copy of `original`, then leaves the
/// section.
///
/// Not imported from the header, because C has no generic functions. A result of a generic type is always returned
/// indirectly, so that the copy is made in its final place.
@_silgen_name("forge_copy_and_leave")
private func copyAndLeave<Value>(
    _ copier: @convention(c) (UnsafeRawPointer, UnsafeMutableRawPointer) -> Void, _ original: UnsafeRawPointer,
    _ reader: UnsafeMutablePointer<forge_reader>
) -> Value

private func copyText(_ words: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    unsafe copy.initializeMemory(as: String.self, to: words.load(as: String.self))
}

private func copyValue(_ cell: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    unsafe Unmanaged<ValueCell>.fromOpaque(cell)._withUnsafeGuaranteedRef { unsafe $0.copyValue(to: copy) }
}

private func retainCell(_ cell: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    unsafe copy.initializeMemory(as: ValueCell.self, to: Unmanaged<ValueCell>.fromOpaque(cell).takeUnretainedValue())
}
