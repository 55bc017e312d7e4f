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
