import CForgeKVStore

/// Tells a writer when nobody can be looking any more at what it has taken out of a table.
///
/// Readers take no lock, never wait, and write nowhere that another thread writes: each thread counts for itself how many
/// times it has gone in and out. A writer that has unlinked something keeps it until every thread that was inside has been outside
/// once: who came in later cannot have found it. This is read-copy update as of liburcu's `membarrier` flavour (Desnoyers
/// et al., "User-Level Implementations of Read-Copy Update", 2012): the writer makes the threads of the process pass a
/// fence, so that a reader needs none. Where the system cannot do that, readers pass one of their own.
///
/// There is one gate for all tables of the process, because there is one for each thread.
enum ReadGate {
    private static let isOrdered = forge_orders_readers()

    /// What a reader gives back when it leaves.
    struct Pass {
        fileprivate let reader: UnsafeMutablePointer<forge_reader>
    }

    /// How readers come in: looked up once for each table.
    struct Entrance: Sendable {
        private let isOrdered: Int32

        init() { isOrdered = ReadGate.isOrdered }

        /// Comes in: what is found in a table from now on stays until `leave`.
        @inline(__always)
        func enter() -> Pass { Pass(reader: forge_enter(isOrdered)) }

        @inline(__always)
        func leave(_ pass: Pass) { forge_leave(pass.reader) }
    }

    /// Those who were inside at some moment and have not been seen outside since.
    struct Visitors {
        private var seen: [(reader: UnsafeMutablePointer<forge_reader>, passes: Int)] = []

        /// Everybody who is inside now: who comes later finds nothing that was unlinked before this.
        static func now() -> Visitors {
            forge_order_readers()
            var visitors = Visitors()
            var next = forge_first_reader()
            while let reader = next {
                let passes = forge_reader_passes(reader)
                if passes % 2 == 1 { visitors.seen.append((reader, passes)) }
                next = reader.pointee.next
            }
            return visitors
        }

        /// Whether everybody has been outside.
        mutating func haveLeft() -> Bool {
            seen.removeAll { forge_reader_passes($0.reader) != $0.passes }
            return seen.isEmpty
        }
    }
}
