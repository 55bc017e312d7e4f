import Foundation

/// Rows of text in columns as wide as their widest cell.
struct TextTable {
    /// The side of a column that its cells are aligned to.
    enum Alignment {
        case left, right
    }

    private let columns: [(title: String, alignment: Alignment)]
    private var rows: [[String]] = []
    /// The widths of the columns; nil before the first lines are taken.
    private var widths: [Int]?

    init(_ columns: [(title: String, alignment: Alignment)]) {
        self.columns = columns
    }

    /// Adds a row. Control characters are escaped, so that the widths of the columns match the printed text.
    mutating func add(_ cells: [String]) {
        rows.append(cells.map { $0.escapingControls() })
    }

    /// The number of rows that ``takeLines()`` has not returned yet.
    var count: Int { rows.count }

    /// The table as lines, the titles underlined.
    var lines: [String] {
        var table = self
        return table.takeLines()
    }

    /// Removes the rows and returns them as lines. The first call also returns the titles, and its rows determine the
    /// widths of the columns, so that a long table can be printed without keeping all rows in memory.
    mutating func takeLines() -> [String] {
        defer { rows = [] }
        if let widths { return rows.map { line($0, widths) } }
        let titles = columns.map(\.title)
        let widths = columns.indices.map { column in
            rows.reduce(Self.width(of: titles[column])) { max($0, Self.width(of: $1[column])) }
        }
        self.widths = widths
        let rule = widths.map { String(repeating: "─", count: $0) }.joined(separator: "  ")
        return [line(titles, widths), rule] + rows.map { line($0, widths) }
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        var line = ""
        for column in columns.indices {
            if column > 0 { line += "  " }
            let space = String(repeating: " ", count: max(0, widths[column] - Self.width(of: cells[column])))
            line += columns[column].alignment == .left ? cells[column] + space : space + cells[column]
        }
        let end = line.utf8.lastIndex { $0 != UInt8(ascii: " ") }.map { line.utf8.index(after: $0) }
        return String(line[..<(end ?? line.startIndex)])
    }

    private static func width(of cell: String) -> Int {
        cell.utf8.allSatisfy { $0 < 0x80 } ? cell.utf8.count : cell.count
    }
}

/// JSON as the commands print it: sorted keys, dates in ISO 8601, control characters as escapes.
enum JSONText {
    /// An object on a line of its own, with the line feed.
    static func line(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        return String(decoding: try encoder.encode(value), as: UTF8.self).escapingControlsOfJSON() + "\n"
    }
}

/// A number of bytes in the largest unit that fits: `512 B`, `1.5 KiB`, `12 MiB`.
func readableSize(_ bytes: Int) -> String {
    var size = Double(bytes)
    var unit = "B"
    for larger in ["KiB", "MiB", "GiB", "TiB"] where size >= 1024 {
        size /= 1024
        unit = larger
    }
    guard unit != "B", size < 10 else { return "\(Int(size.rounded())) \(unit)" }
    let tenths = Int((size * 10).rounded())
    return "\(tenths / 10).\(tenths % 10) \(unit)"
}

/// A count with its noun: `1 key`, `2 keys`.
func counted(_ count: Int, _ thing: String) -> String {
    count == 1 ? "1 \(thing)" : "\(count) \(thing)s"
}

extension String {
    /// The text, or its beginning and an ellipsis if it has more characters than `limit`.
    func shortened(to limit: Int) -> String {
        guard let end = index(startIndex, offsetBy: limit, limitedBy: endIndex), end < endIndex else { return self }
        return prefix(limit - 1) + "…"
    }

    /// The text, or its beginning and end around an ellipsis if it has more characters than `limit`.
    func shortenedInside(to limit: Int) -> String {
        guard count > limit else { return self }
        return prefix(limit / 2) + "…" + suffix(limit - limit / 2 - 1)
    }
}

extension String {
    /// The text with each control character shown as `\xNN`, byte by byte, so that it cannot control a terminal.
    func escapingControls(except kept: Set<Unicode.Scalar> = []) -> String {
        escaping { scalar in
            guard scalar.controlsTerminal, !kept.contains(scalar) else { return nil }
            return Unicode.UTF8.encode(scalar)?.map { "\\x" + $0.hexadecimal(width: 2) }.joined()
        }
    }

    /// JSON text with each control character in a string escaped as `\uNNNN`; the value is unchanged.
    ///
    /// JSON requires escapes only for U+0000 to U+001F (RFC 8259, section 7). Line feeds are kept: the encoder writes
    /// them only between tokens, and other control characters only inside strings.
    func escapingControlsOfJSON() -> String {
        escaping { scalar in
            guard scalar.controlsTerminal, scalar != "\n" else { return nil }
            return "\\u" + scalar.value.hexadecimal(width: 4)
        }
    }

    private func escaping(_ replacement: (Unicode.Scalar) -> String?) -> String {
        guard unicodeScalars.contains(where: \.controlsTerminal) else { return self }
        var text = ""
        for scalar in unicodeScalars {
            if let escape = replacement(scalar) { text += escape } else { text.unicodeScalars.append(scalar) }
        }
        return text
    }
}

extension Unicode.Scalar {
    /// Whether the scalar is a control character, a line separator, or changes the text direction.
    fileprivate var controlsTerminal: Bool {
        switch value {
        case 0..<0x20, 0x7F...0x9F, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

extension BinaryInteger {
    fileprivate func hexadecimal(width: Int) -> String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
