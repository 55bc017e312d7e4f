import CForgeKVStore

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
    func enter() -> ReadGuard { ReadGuard(reader: forge_enter(writerFencesReaders)) }
}

/// The threads that were inside a read-side critical section when the grace period began and have not left it since.
struct GracePeriod {
    private var readers: [(record: UnsafeMutablePointer<forge_reader>, passes: Int)] = []

    /// A grace period that is over.
    init() {}

    /// Begins a grace period; sections that are entered later cannot find what was unlinked before. Nil if the system
    /// refuses to order the threads: nothing may be freed then.
    static func begin() -> GracePeriod? {
        guard forge_fence_readers() != 0 else { return nil }
        var period = GracePeriod()
        var next = forge_first_reader()
        while let record = next {
            let passes = forge_reader_passes(record)
            // Odd inside a section.
            if passes % 2 == 1 { period.readers.append((record, passes)) }
            next = record.pointee.next
        }
        return period
    }

    /// Whether all sections that it waits for have been left.
    mutating func isOver() -> Bool {
        readers.removeAll { forge_reader_passes($0.record) != $0.passes }
        return readers.isEmpty
    }
}
