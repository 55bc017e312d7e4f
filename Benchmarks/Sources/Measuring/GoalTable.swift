/// Goals, figures and verdicts as text; lines may be printed as they come.
public enum GoalTable {
    private static let widths = [57, 10, 12, 12, 12, 9, 9]

    /// The table header.
    public static var header: String {
        aligned(["", "goal", "this run", "fastest", "slowest", "ratio", ""], widths: widths)
    }

    /// A line and its peers.
    public static func text(_ line: GoalLine) -> String {
        let verdict =
            switch line.isMet {
            case true?: "met"
            case false?: "MISSED"
            case nil: ""
            }
        let own = row(line.name, text(line.goal), line.cells, line.ratio, verdict)
        let peers = line.peers.map { row("    " + $0.name, "", $0.cells, $0.ratio, "") }
        return ([own] + peers).joined(separator: "\n")
    }

    /// The number of goals met, and the names of the others.
    public static func summary(_ lines: [GoalLine]) -> String {
        let goals = lines.filter { $0.isMet != nil }
        let missed = goals.filter { $0.isMet == false }
        let count = "\(goals.count - missed.count) of \(goals.count) goals met"
        return missed.isEmpty ? count : "\(count); missed: " + missed.map(\.name).joined(separator: "; ")
    }

    private static func text(_ goal: GoalLine.Goal) -> String {
        switch goal {
        case .ratioAtMost(let limit): "<= \(Figure.factor(limit))"
        case .ratioAtLeast(let limit): ">= \(Figure.factor(limit))"
        case .atMost(let limit): "<= \(limit)"
        case .none: ""
        }
    }

    private static func row(
        _ name: String, _ goal: String, _ figures: [Figure], _ ratio: Double?, _ verdict: String
    ) -> String {
        let cells = figures.map(\.description) + [String](repeating: "", count: 3 - figures.count)
        return aligned([name, goal] + cells + [ratio.map { "\(Figure.factor($0))" } ?? "", verdict], widths: widths)
    }
}
