/// The abilities and limits that a store declares, and that the conformance checks verify.
public struct AsyncKVCapabilities: Hashable, Sendable {
    /// Which writes may have requirements.
    public enum ConditionalWrites: Hashable, Sendable {
        /// None: every batch with a requirement is `.refused`.
        case none

        /// Batches with any number of changes and requirements.
        case batches
    }

    /// How changes are reported.
    public enum Changes: Hashable, Sendable {
        /// Not at all: ``AsyncKVStoring/changes(prefix:from:)`` throws `.refused`.
        case none

        /// Only while a sequence is connected: after an interruption, and from a revision, it begins with `.resync`.
        case lossy

        /// From any revision that the store still keeps, without a gap.
        case replayable
    }

    /// Which writes a read sees.
    public enum ReadConsistency: Hashable, Sendable {
        /// All that were acknowledged before the read began, by any client.
        case linearizable

        /// Those up to an earlier instant.
        case stale
    }

    /// The worst failure that an acknowledged write survives.
    public enum Durability: Int, Hashable, Sendable, Comparable {
        /// None: writes are lost when the process ends.
        case memory

        /// The end of every process that uses the store, including a kill.
        case processEnd

        /// A power cut.
        case powerCut

        public static func < (left: Durability, right: Durability) -> Bool { left.rawValue < right.rawValue }
    }

    /// Which writes may have requirements.
    public var conditionalWrites: ConditionalWrites

    /// The maximum number of names that a batch changes; nil without a limit. A larger batch is `.tooLarge` before
    /// anything is sent.
    public var maximumBatchSize: Int?

    /// By how much a value may outlive its time to live; nil if the store has no times to live: they are `.refused`.
    public var expiry: Duration?

    /// How changes are reported.
    public var changes: Changes

    /// Which writes a read sees.
    public var readConsistency: ReadConsistency

    /// The worst failure that an acknowledged write survives.
    public var durability: Durability

    /// Creates a declaration.
    public init(
        conditionalWrites: ConditionalWrites, maximumBatchSize: Int?, expiry: Duration?, changes: Changes,
        readConsistency: ReadConsistency, durability: Durability
    ) {
        self.conditionalWrites = conditionalWrites
        self.maximumBatchSize = maximumBatchSize
        self.expiry = expiry
        self.changes = changes
        self.readConsistency = readConsistency
        self.durability = durability
    }
}
