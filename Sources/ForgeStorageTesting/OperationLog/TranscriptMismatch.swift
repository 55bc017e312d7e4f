/// A log that differs from the expected transcript.
public struct TranscriptMismatch: Error, Hashable, Sendable, CustomStringConvertible {
    /// The lines that were expected.
    public let expected: [String]

    /// The lines of the log.
    public let actual: [String]

    /// The difference: missing lines after `-`, unexpected lines after `+`.
    public var description: String {
        var lines: [String] = []
        var unchanged: [String] = []
        func flush(isLast: Bool) {
            let context = 2
            let leading = lines.isEmpty ? 0 : context
            let trailing = isLast ? 0 : context
            if unchanged.count > leading + trailing + 1 {
                lines += unchanged.prefix(leading).map { "  " + $0 }
                lines.append("  … \(unchanged.count - leading - trailing) lines as expected …")
                lines += unchanged.suffix(trailing).map { "  " + $0 }
            } else {
                lines += unchanged.map { "  " + $0 }
            }
            unchanged = []
        }
        let difference = actual.difference(from: expected)
        var removed: Set<Int> = []
        var inserted: Set<Int> = []
        for change in difference {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var (old, new) = (0, 0)
        while old < expected.count || new < actual.count {
            if removed.contains(old) {
                flush(isLast: false)
                lines.append("- " + expected[old])
                old += 1
            } else if inserted.contains(new) {
                flush(isLast: false)
                lines.append("+ " + actual[new])
                new += 1
            } else {
                unchanged.append(expected[old])
                old += 1
                new += 1
            }
        }
        flush(isLast: true)
        return "the log is not as expected (- missing, + unexpected)\n" + lines.joined(separator: "\n")
    }
}

/// Throws unless the text of `log` equals `transcript`, ignoring empty lines and surrounding spaces.
///
/// - Throws: ``TranscriptMismatch`` with the difference.
public func expectLog(_ log: OperationLog, _ transcript: String) throws(TranscriptMismatch) {
    let expected = meaningfulLines(of: transcript)
    let actual = meaningfulLines(of: log.text)
    guard actual == expected else { throw TranscriptMismatch(expected: expected, actual: actual) }
}

private func meaningfulLines(of text: String) -> [String] {
    text.split(whereSeparator: \.isNewline).compactMap { line in
        let trimmed = line.drop(while: \.isWhitespace)
        guard let last = trimmed.lastIndex(where: { !$0.isWhitespace }) else { return nil }
        return String(trimmed[...last])
    }
}
