/// A table of measurements with ratios to the first.
public struct MeasurementTable: CustomStringConvertible {
    private let title: String
    private let rows: [Measurement]

    public init(_ title: String, _ rows: [Measurement]) {
        self.title = title
        self.rows = rows
    }

    public var description: String {
        var lines = ["\(title)", line(["", "median", "fastest", "slowest", "ratio"])]
        for row in rows {
            let ratio = rows.first.map { row.median / $0.median } ?? 1
            let times = [row.median, row.fastest, row.slowest].map { Figure.nanoseconds($0).description }
            lines.append(line([row.name] + times + [Figure.factor(ratio).description]))
        }
        return lines.joined(separator: "\n")
    }

    private func line(_ cells: [String]) -> String { aligned(cells, widths: [44, 12, 12, 12, 9]) }
}

/// Aligns cells to these widths: the first to the left, the others to the right.
func aligned(_ cells: [String], widths: [Int]) -> String {
    zip(cells, widths).enumerated().map { index, cell in
        let padding = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
        return index == 0 ? cell.0 + padding : padding + cell.0
    }.joined()
}
