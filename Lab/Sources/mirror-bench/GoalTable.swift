import Foundation

/// Prints measurements beside their references.
struct GoalTable {
    /// Whether all goals so far are met.
    private(set) var isMet = true

    init() {
        show(Self.row("", "measured", "reference", "ratio", "goal", ""))
    }

    /// Prints a figure with a goal.
    mutating func add(_ name: String, _ figure: String, _ reference: String, ratio: Double, goal: Double) {
        let verdict = ratio <= goal ? "met" : "MISSED"
        if ratio > goal { isMet = false }
        show(Self.row(name, figure, reference, Self.text(ratio), "<= \(Self.text(goal))", verdict))
    }

    /// Prints a figure without a goal.
    func add(_ name: String, _ figure: String, _ reference: String = "", ratio: Double? = nil) {
        show(Self.row(name, figure, reference, ratio.map { Self.text($0) } ?? "", "", ""))
    }

    /// Prints a line at once, also into a file.
    func show(_ line: String) {
        print(line)
        fflush(nil)
    }

    private static func text(_ number: Double) -> String { String(format: "%.2f", number) }

    private static func row(_ cells: String...) -> String {
        let widths = [52, 12, 12, 8, 10, 8]
        return zip(cells, widths).enumerated().map { index, cell in
            let padding = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
            return index == 0 ? cell.0 + padding : padding + cell.0
        }.joined(separator: " ")
    }
}

extension Double {
    /// The number as milliseconds.
    var milliseconds: String { String(format: "%.2f ms", self * 1_000) }

    /// The number as nanoseconds.
    var nanoseconds: String { String(format: "%.1f ns", self * 1e9) }
}

extension Duration {
    var seconds: Double { self / .seconds(1) }
}

extension [Double] {
    /// The value in the middle, or after a part of the sorted values.
    func quantile(_ part: Double = 0.5) -> Double { sorted()[Swift.min(count - 1, Int(Double(count) * part))] }
}
