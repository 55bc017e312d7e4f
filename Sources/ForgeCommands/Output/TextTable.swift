/// Rows of text in columns as wide as their widest cell.
struct TextTable {
    /// The side of a column that its cells are aligned to.
    enum Alignment {
        case left, right
    }

    private let columns: [(title: String, alignment: Alignment)]
    private var rows: [[String]] = []

    init(_ columns: [(title: String, alignment: Alignment)]) {
        self.columns = columns
    }

    /// Adds a row; control characters are escaped here, so that column widths match the printed text.
    mutating func add(_ cells: [String]) {
        rows.append(cells.map { $0.escapingControls() })
    }

    /// The table as lines, the titles underlined.
    var lines: [String] {
        let titles = columns.map(\.title)
        let widths = columns.indices.map { column in
            ([titles] + rows).map { $0[column].count }.max() ?? 0
        }
        func line(_ cells: [String]) -> String {
            let padded = columns.indices.map { column in
                let space = String(repeating: " ", count: widths[column] - cells[column].count)
                return columns[column].alignment == .left ? cells[column] + space : space + cells[column]
            }
            let joined = padded.joined(separator: "  ")
            return String(joined.reversed().drop { $0 == " " }.reversed())
        }
        return [line(titles), widths.map { String(repeating: "─", count: $0) }.joined(separator: "  ")] + rows.map(line)
    }
}
