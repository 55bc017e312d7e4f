import ForgeKVStore
import Synchronization

/// The calls of concurrent clients, as they happen.
package final class HistoryRecorder: Sendable {
    /// The number of calls by outcome.
    package struct Counts: Hashable, Sendable {
        /// Answered, refused requirements included.
        package var answered = 0

        /// Failed with an error that says that nothing was changed. Not part of the history.
        package var failed = 0

        package var unknown = 0

        package init() {}

        package var all: Int { answered + failed + unknown }
    }

    private struct State {
        var operations: [HistoryOperation] = []
        var counts = Counts()
        var begun = 0
    }

    private let state = Mutex(State())
    private let values = Atomic(0)
    private let start = ContinuousClock.now

    package init() {}

    package var operations: [HistoryOperation] { state.withLock { $0.operations } }
    package var counts: Counts { state.withLock { $0.counts } }

    /// Counts a call before it begins, and returns the number of those before it.
    package func nextIndex() -> Int {
        state.withLock { state in
            state.begun += 1
            return state.begun - 1
        }
    }

    /// The number of calls that have begun.
    package var begun: Int { state.withLock { $0.begun } }

    /// A value that no other write of the history stores.
    func nextValue() -> Int { values.add(1, ordering: .relaxed).newValue }

    /// The time since the recorder was created, of a monotonic clock.
    func now() -> Int64 {
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    func add(_ operation: HistoryOperation) {
        state.withLock { state in
            state.operations.append(operation)
            if operation.outcome == .unknown { state.counts.unknown += 1 } else { state.counts.answered += 1 }
        }
    }

    func addFailure() { state.withLock { $0.counts.failed += 1 } }
}

/// The state of a name, as a client observes or requires it. Each write of a history stores a distinct value.
package enum HistoryObservation: Hashable, Sendable {
    case absent

    /// An unknown value.
    case present

    case value(Int, revision: UInt64?)
}

/// One call of a client: what it asked, and what the store answered.
///
/// Every call is a transaction: it reads, requires and writes names at one moment between its begin and its end.
package struct HistoryOperation: Hashable, Sendable {
    package enum Kind: String, CaseIterable, Sendable {
        case read, list, set, remove, createIfAbsent, compareAndSet, update, batch
    }

    package enum Outcome: Hashable, Sendable {
        /// The requirements held, and the writes took effect.
        case done

        /// A requirement did not hold; nothing was changed.
        case conflict

        /// It takes effect at any later moment, or never.
        case unknown
    }

    package var kind: Kind
    package var outcome: Outcome

    /// The moments before the call and after its answer, in nanoseconds.
    package var began: Int64
    package var ended: Int64

    /// The states that the answer reports: those read, or after a conflict, those that violated a requirement if the
    /// store reports them.
    package var observed: [String: HistoryObservation]

    /// The states that the writes require.
    package var required: [String: HistoryObservation]

    /// The new values; nil removes the name.
    package var written: [String: Int?]

    package init(
        _ kind: Kind, _ outcome: Outcome = .done, from began: Int64, to ended: Int64,
        observed: [String: HistoryObservation] = [:], required: [String: HistoryObservation] = [:],
        written: [String: Int?] = [:]
    ) {
        self.kind = kind
        self.outcome = outcome
        self.began = began
        self.ended = ended
        self.observed = observed
        self.required = required
        self.written = written
    }

    package var names: Set<String> { Set(observed.keys).union(required.keys).union(written.keys) }
}

extension HistoryOperation: CustomStringConvertible {
    /// One line, such as `[12, 15] set a=7: done`.
    package var description: String {
        var parts = ["[\(began), \(outcome == .unknown ? "…" : String(ended))]", kind.rawValue]
        parts += required.sorted { $0.key < $1.key }.map { "if \($0.key)=\($0.value)" }
        parts += written.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value.map { String($0) } ?? "nil")" }
        parts += observed.sorted { $0.key < $1.key }.map { "saw \($0.key)=\($0.value)" }
        return parts.joined(separator: " ") + ": \(outcome)"
    }
}

extension HistoryObservation: CustomStringConvertible {
    package var description: String {
        switch self {
        case .absent: "nil"
        case .present: "some"
        case .value(let value, let revision): revision.map { "\(value)@\($0)" } ?? "\(value)"
        }
    }
}

/// A value that a write stored under a name.
package struct WrittenValue: Hashable, Sendable {
    package var name: String
    package var value: Int

    package init(name: String, value: Int) {
        self.name = name
        self.value = value
    }
}

/// The revisions of the values, as the answers of a history show them.
package struct HistoryRevisions: Sendable {
    package private(set) var revisions: [WrittenValue: UInt64] = [:]

    /// Values with two revisions, which were stored twice, and revisions that do not follow the order of the writes.
    package private(set) var violations: [String] = []

    package init(_ history: [HistoryOperation]) {
        for operation in history {
            for (name, observation) in Array(operation.observed) + Array(operation.required) {
                guard case .value(let value, let revision?) = observation else { continue }
                note(WrittenValue(name: name, value: value), revision)
            }
        }
        checkWrittenOnce(history)
        checkOrder(history)
    }

    /// Adds a revision that a watch shows.
    package mutating func note(_ value: WrittenValue, _ revision: UInt64) {
        if let known = revisions.updateValue(revision, forKey: value), known != revision {
            violations.append("\(value.name)=\(value.value) was stored twice, as revisions \(known) and \(revision)")
        }
    }

    /// The known revisions of a call's values, in ascending order.
    package func known(of operation: HistoryOperation) -> [UInt64] {
        operation.written.compactMap { name, value in
            value.flatMap { revisions[WrittenValue(name: name, value: $0)] }
        }.sorted()
    }

    /// The history's part of the contract: a value identifies its write.
    private mutating func checkWrittenOnce(_ history: [HistoryOperation]) {
        var written: Set<WrittenValue> = []
        for operation in history {
            for case (let name, let value?) in operation.written
            where !written.insert(WrittenValue(name: name, value: value)).inserted {
                violations.append("two calls write \(name)=\(value): \(operation)")
            }
        }
    }

    /// A revision is greater than those of all writes that were acknowledged before.
    private mutating func checkOrder(_ history: [HistoryOperation]) {
        let writes = history.filter { !$0.written.isEmpty && $0.outcome != .conflict }
        let ended = writes.filter { $0.outcome == .done }.sorted { $0.ended < $1.ended }
        var (count, largest) = (0, UInt64(0))
        for write in writes.sorted(by: { $0.began < $1.began }) {
            while count < ended.count, ended[count].ended < write.began {
                largest = max(largest, known(of: ended[count]).last ?? 0)
                count += 1
            }
            if let revision = known(of: write).first, revision <= largest {
                violations.append("after revision \(largest) was acknowledged, revision \(revision) was: \(write)")
            }
        }
    }
}
