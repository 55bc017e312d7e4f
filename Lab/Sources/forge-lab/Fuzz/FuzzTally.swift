import ForgeFileSystem
import SystemPackage

/// Counts of calls by operation and outcome, to show that most calls succeed.
struct FuzzTally {
    private struct Outcome: Hashable {
        var operation: String
        /// Nil for success.
        var errno: Errno?
    }

    private var counts: [Outcome: Int] = [:]

    mutating func count(_ operation: FuzzOperation, _ outcome: FuzzOutcome) {
        let errno: Errno? = if case .failed(let errno) = outcome { errno } else { nil }
        counts[Outcome(operation: operation.name, errno: errno), default: 0] += 1
    }

    /// A summary line over all calls.
    var summary: String {
        let all = counts.values.reduce(0, +)
        let successes = counts.filter { $0.key.errno == nil }.values.reduce(0, +)
        let failures = counts.keys.filter { $0.errno != nil }
        return "\(percent(successes, of: all)) of the calls succeeded; \(failures.count) pairs of operation and error, "
            + "\(Set(failures.map(\.errno)).count) errors, \(Set(counts.keys.map(\.operation)).count) operations"
    }

    /// One line per operation: calls, successes, and errors with their counts.
    var lines: [String] {
        Dictionary(grouping: counts, by: \.key.operation).sorted { $0.key < $1.key }.map { operation, outcomes in
            let all = outcomes.reduce(0) { $0 + $1.value }
            let successes = outcomes.first { $0.key.errno == nil }?.value ?? 0
            let errors = outcomes.compactMap { outcome in outcome.key.errno.map { ($0.name, outcome.value) } }
                .sorted { ($1.1, $0.0) < ($0.1, $1.0) }
            return
                (["\(operation): \(all) calls, \(percent(successes, of: all)) succeeded"]
                + errors.map { "\($0.0) \($0.1)" }).joined(separator: ", ")
        }
    }

    private func percent(_ part: Int, of whole: Int) -> String {
        let perMille = whole > 0 ? part * 1000 / whole : 0
        return "\(perMille / 10).\(perMille % 10) %"
    }
}
