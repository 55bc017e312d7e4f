/// The results of a suite on one implementation.
public struct ConformanceReport: Sendable {
    /// The outcome of a check.
    public enum Outcome: Hashable, Sendable {
        /// The implementation keeps the promise.
        case passed

        /// The implementation breaks the promise; the text describes how.
        case violated(String)

        /// The promise does not apply; the text names the missing capability: "needs a list of its keys".
        case notApplicable(String)
    }

    /// A check and its outcome.
    public struct Result: Hashable, Sendable {
        /// The promise.
        public var check: String

        /// The outcome.
        public var outcome: Outcome
    }

    /// The name of the suite.
    public var suite: String

    /// The name of the subject.
    public var subject: String

    /// The result of each check, in suite order.
    public var results: [Result]

    /// Creates a report.
    public init(suite: String, subject: String, results: [Result]) {
        self.suite = suite
        self.subject = subject
        self.results = results
    }

    /// The number of promises kept.
    public var passedCount: Int { results.count { $0.outcome == .passed } }

    /// The broken promises.
    public var violations: [Result] {
        results.filter { if case .violated = $0.outcome { true } else { false } }
    }

    /// The checks that did not apply.
    public var notApplicable: [Result] {
        results.filter { if case .notApplicable = $0.outcome { true } else { false } }
    }

    /// Whether at least one check applied and none was violated.
    public var holds: Bool { violations.isEmpty && passedCount > 0 }

    /// The outcome of the check with this description; nil if the suite has none.
    public func outcome(of check: String) -> Outcome? {
        results.first { $0.check == check }?.outcome
    }
}

extension ConformanceReport: CustomStringConvertible {
    /// A summary line, then a line for each violated and each inapplicable check.
    public var description: String {
        ([summary] + violations.map(\.description) + notApplicable.map(\.description)).joined(separator: "\n")
    }

    /// The summary line: `MyStore, key-value store: 60 passed, 1 violated, 3 not applicable`.
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
