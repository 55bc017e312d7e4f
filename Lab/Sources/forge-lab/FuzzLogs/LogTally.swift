/// Counts of the cases by outcome.
struct LogTally {
    private var counts = [Int](repeating: 0, count: LogTrial.Outcome.allCases.count)
    private var forgedCount = 0
    var violationCount = 0

    init() {}

    /// Parses the ``line`` that another process printed; nil if it is invalid.
    init?(line: some StringProtocol) {
        let numbers = line.split(separator: " ").compactMap { Int($0) }
        guard line.hasPrefix("tally "), numbers.count == counts.count + 2 else { return nil }
        counts = Array(numbers.prefix(counts.count))
        forgedCount = numbers[counts.count]
        violationCount = numbers[counts.count + 1]
    }

    var line: String { "tally " + (counts + [forgedCount, violationCount]).map(String.init).joined(separator: " ") }

    mutating func count(_ outcome: LogTrial.Outcome, isForged: Bool) {
        counts[outcome.rawValue] += 1
        if isForged { forgedCount += 1 }
    }

    static func += (tally: inout LogTally, other: LogTally) {
        for index in tally.counts.indices { tally.counts[index] += other.counts[index] }
        tally.forgedCount += other.forgedCount
        tally.violationCount += other.violationCount
    }

    private subscript(outcome: LogTrial.Outcome) -> Int { counts[outcome.rawValue] }

    var caseCount: Int { counts.reduce(violationCount, +) }

    /// A summary in words.
    var summary: String {
        "\(caseCount) logs, \(forgedCount) of them forged: \(self[.clean]) opened clean, \(self[.damaged]) with damage "
            + "told, \(self[.torn]) torn, \(self[.readOnly]) read-only, \(self[.refused]) refused; "
            + "\(violationCount) violations"
    }
}
