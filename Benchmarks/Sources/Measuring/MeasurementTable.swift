/// Measurements as text, each compared with the first.
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
            lines.append(
                line([row.name, time(row.median), time(row.fastest), time(row.slowest), rounded(ratio, 2) + "x"]))
        }
        return lines.joined(separator: "\n")
    }

    private func line(_ cells: [String]) -> String {
        let widths = [44, 12, 12, 12, 9]
        return zip(cells, widths).enumerated().map { index, cell in
            let padding = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
            return index == 0 ? cell.0 + padding : padding + cell.0
        }.joined()
    }

    private func time(_ nanoseconds: Double) -> String {
        nanoseconds < 10_000 ? "\(rounded(nanoseconds, 1)) ns" : "\(rounded(nanoseconds / 1000, 1)) us"
    }

    private func rounded(_ number: Double, _ digits: Int) -> String {
        let scale = (0..<digits).reduce(1.0) { scale, _ in scale * 10 }
        return "\((number * scale).rounded() / scale)"
    }
}
