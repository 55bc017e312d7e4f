/// What came of a suite on one implementation, check by check.
public struct ConformanceReport: Sendable {
    /// What came of a check.
    public enum Outcome: Hashable, Sendable {
        /// The promise was kept.
        case passed

        /// The promise was broken, in this way.
        case violated(String)

        /// The implementation does not make the promise, for this reason: "needs a list of its keys".
        case notApplicable(String)
    }

    /// A check and what came of it.
    public struct Result: Hashable, Sendable {
        /// The promise.
        public var check: String

        /// What came of it.
        public var outcome: Outcome
    }

    /// The name of the suite.
    public var suite: String

    /// The name of what it was run on.
    public var subject: String

    /// One result for each check, in the order of the suite.
    public var results: [Result]

    /// A report from its parts.
    public init(suite: String, subject: String, results: [Result]) {
        self.suite = suite
        self.subject = subject
        self.results = results
    }

    /// How many promises were kept.
    public var passedCount: Int { results.count { $0.outcome == .passed } }

    /// The checks whose promise was broken.
    public var violations: [Result] {
        results.filter { if case .violated = $0.outcome { true } else { false } }
    }

    /// The checks that did not apply.
    public var notApplicable: [Result] {
        results.filter { if case .notApplicable = $0.outcome { true } else { false } }
    }

    /// Whether every promise that was checked was kept, and any was: a suite in which nothing applies has shown nothing.
    public var holds: Bool { violations.isEmpty && passedCount > 0 }

    /// What came of the check with this description; nil if there is none.
    public func outcome(of check: String) -> Outcome? {
        results.first { $0.check == check }?.outcome
    }
}

extension ConformanceReport: CustomStringConvertible {
    /// One line of figures, then one for each promise that was broken and for each that did not apply.
    public var description: String {
        ([summary] + violations.map(\.description) + notApplicable.map(\.description)).joined(separator: "\n")
    }

    /// The line of figures: `MyStore, key-value store: 60 passed, 1 violated, 3 not applicable`.
    public var summary: String {
        "\(subject), \(suite): \(passedCount) passed, \(violations.count) violated, "
            + "\(notApplicable.count) not applicable"
    }
}

extension ConformanceReport.Result: CustomStringConvertible {
    public var description: String {
        switch outcome {
        case .passed: "  passed: \(check)"
        case .violated(let reason): "  violated: \(check): \(reason)"
        case .notApplicable(let reason): "  not applicable: \(check): \(reason)"
        }
    }
}
