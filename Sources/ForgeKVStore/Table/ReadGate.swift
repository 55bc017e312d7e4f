import CForgeKVStore
import Synchronization

/// Tells a writer when nobody can be looking any more at what it has taken out of a table.
///
/// Readers take no lock and never wait: they are counted while they are inside, threads apart from one another as far as
/// possible, so that none writes where another does. A writer that has unlinked something keeps it until every counter
/// was seen at zero once since then: who came in later cannot have found it.
///
/// The scheme is that of sleepable read-copy update (McKenney, "Is Parallel Programming Hard, And, If So, What Can You
/// Do About It?", chapter 9.5), reduced to what is never waited for.
final class ReadGate: @unchecked Sendable {
    // Invariant of the unchecked conformance: the memory is allocated once and holds nothing but atomics.

    /// A counter on cache lines of its own; processors fetch two at a time.
    private struct Stripe: ~Copyable {
        let readers = Atomic<Int>(0)
        static let stride = 128
    }

    static let stripeCount = 16

    private let stripes: UnsafeMutableRawPointer

    init() {
        stripes = .allocate(byteCount: Self.stripeCount * Stripe.stride, alignment: Stripe.stride)
        for number in 0..<Self.stripeCount {
            (stripes + number * Stripe.stride).bindMemory(to: Stripe.self, capacity: 1).initialize(to: Stripe())
        }
    }

    deinit {
        for number in 0..<Self.stripeCount { stripe(number).deinitialize(count: 1) }
        stripes.deallocate()
    }

    /// What a reader gives back when it leaves.
    struct Pass {
        fileprivate let stripe: UnsafeMutablePointer<Stripe>
    }

    /// Comes in: what is found in the table from now on stays until `leave`.
    @inline(__always)
    func enter() -> Pass {
        // Thread-local storage lies at least a page apart; multiplying spreads its addresses over the top bits.
        let mixed = UInt64(forge_thread_number()) &* 0x9E37_79B9_7F4A_7C15
        let pass = Pass(stripe: stripe(Int(truncatingIfNeeded: mixed >> 60)))
        pass.stripe.pointee.readers.wrappingAdd(1, ordering: .sequentiallyConsistent)
        return pass
    }

    @inline(__always)
    func leave(_ pass: Pass) {
        pass.stripe.pointee.readers.wrappingSubtract(1, ordering: .releasing)
    }

    /// Whether nobody is inside who came through this stripe.
    func isEmpty(_ number: Int) -> Bool {
        stripe(number).pointee.readers.load(ordering: .sequentiallyConsistent) == 0
    }

    @inline(__always)
    private func stripe(_ number: Int) -> UnsafeMutablePointer<Stripe> {
        (stripes + number * Stripe.stride).assumingMemoryBound(to: Stripe.self)
    }
}
