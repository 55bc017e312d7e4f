import Foundation
import Synchronization

/// Shows the progress of a long command: as a line on a terminal, as JSON lines with `--json`, otherwise not at all.
///
/// The line appears on standard error once the work has taken a second. JSON lines go to standard output, at most four
/// per second.
final class Progress: Sendable {
    /// The form in which progress is shown.
    enum Style {
        case line, jsonLines, none

        /// The style for the output of this process.
        static func current(json: Bool) -> Style {
            json ? .jsonLines : isatty(STDERR_FILENO) == 1 ? .line : .none
        }
    }

    /// A number of items and of bytes in them.
    struct Amount: Hashable, Sendable {
        var items = 0
        var bytes: Int64 = 0
    }

    private struct State {
        var done = Amount()
        var total: Amount?
        var lastShown: ContinuousClock.Instant
        var isShown = false
    }

    private struct Line: Encodable {
        var type = "progress"
        let items: Int
        let bytes: Int64
        let totalItems: Int?
        let totalBytes: Int64?
        let seconds: Double
    }

    private let noun: String
    private let style: Style
    private let start: ContinuousClock.Instant
    private let state: Mutex<State>
    private let write: @Sendable (String) throws(CommandFailure) -> Void

    /// - Parameters:
    ///   - noun: What is counted, in the plural: `files`.
    ///   - style: The form in which progress is shown.
    ///   - start: The time at which the work began.
    ///   - write: Writes a text to the output.
    init(
        _ noun: String, _ style: Style, start: ContinuousClock.Instant,
        write: @escaping @Sendable (String) throws(CommandFailure) -> Void
    ) {
        self.noun = noun
        self.style = style
        self.start = start
        self.write = write
        state = Mutex(State(lastShown: start))
    }

    /// Creates a progress display on standard error; JSON lines go to standard output unless `usesStandardError` is true.
    convenience init(_ noun: String, _ style: Style, usesStandardError: Bool = false) {
        self.init(noun, style, start: .now) { (text) throws(CommandFailure) in
            guard style == .jsonLines, !usesStandardError else { return StandardError.write(text) }
            try StandardOutput.write(Data(text.utf8))
        }
    }

    /// Whether progress is shown; if not, counting the total is needless.
    var isVisible: Bool { style != .none }

    /// The amount completed so far.
    var done: Amount { state.withLock { $0.done } }

    /// The time since the start.
    var elapsed: Duration { .now - start }

    /// Sets the total, from which the completed share and the remaining time are computed.
    func expect(_ total: Amount) {
        state.withLock { $0.total = total }
    }

    /// Adds completed items and bytes, and shows the progress if it is due.
    ///
    /// - Throws: ``CommandFailure`` if the output cannot be written.
    func advance(items: Int = 1, bytes: Int64 = 0, now: ContinuousClock.Instant = .now) throws {
        let line: String? = try state.withLock { state in
            state.done.items += items
            state.done.bytes += bytes
            let interval: Duration = style == .line ? .milliseconds(100) : .milliseconds(250)
            guard style != .none, now - start >= (style == .line ? .seconds(1) : interval),
                now - state.lastShown >= interval
            else { return nil }
            state.lastShown = now
            state.isShown = true
            return try text(state, elapsed: now - start)
        }
        if let line { try write(line) }
    }

    /// Removes the line from the terminal.
    func finish() {
        let wasShown = state.withLock { state in
            defer { state.isShown = false }
            return state.isShown && style == .line
        }
        // On standard error, which drops what it cannot write.
        if wasShown { do { try write("\r\u{1B}[K") } catch _ {} }
    }

    // MARK: Text

    private func text(_ state: State, elapsed: Duration) throws -> String {
        style == .line
            ? "\r" + Self.line(noun, state.done, of: state.total, after: elapsed) + "\u{1B}[K"
            : try JSONText.line(
                Line(
                    items: state.done.items, bytes: state.done.bytes, totalItems: state.total?.items,
                    totalBytes: state.total?.bytes, seconds: elapsed.seconds))
    }

    /// The text of the line on a terminal.
    static func line(_ noun: String, _ done: Amount, of total: Amount?, after elapsed: Duration) -> String {
        var parts: [String] = []
        let share = total.map { Self.share(of: done, in: $0) }
        if let share {
            let filled = Int(share * 20)
            let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: 20 - filled)
            parts.append("[\(bar)] \(Int(share * 100))%")
        }
        parts.append(total.map { "\(done.items) of \($0.items) \(noun)" } ?? "\(done.items) \(noun)")
        let seconds = max(elapsed.seconds, 0.001)
        if done.bytes > 0 {
            parts.append("\(readableSize(Int(done.bytes))), \(readableSize(Int(Double(done.bytes) / seconds)))/s")
        } else {
            parts.append("\(Int(Double(done.items) / seconds))/s")
        }
        if let share, share > 0, share < 1 {
            let rest = Int((seconds * (1 - share) / share).rounded())
            let (minutes, secondsLeft) = (rest / 60, rest % 60)
            parts.append("\(minutes):\(secondsLeft < 10 ? "0" : "")\(secondsLeft) left")
        }
        return parts.joined(separator: "  ")
    }

    /// The completed share of the bytes, or of the items if there are no bytes, between 0 and 1.
    private static func share(of done: Amount, in total: Amount) -> Double {
        let share =
            total.bytes > 0
            ? Double(done.bytes) / Double(total.bytes)
            : total.items > 0 ? Double(done.items) / Double(total.items) : 0
        return min(max(share, 0), 1)
    }
}

extension Duration {
    /// The duration in seconds, truncated to milliseconds.
    var seconds: Double {
        Double(components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000) / 1000
    }
}
