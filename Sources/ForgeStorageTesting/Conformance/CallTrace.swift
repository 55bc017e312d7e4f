import Synchronization

/// The calls of a check that runs, so that its violations name them.
///
/// A subject whose calls are traced makes each of them in ``calling(_:changes:file:line:_:)``. The check then reports an
/// unexpected error with its call, a time limit with the call that did not return, and every other violation with the
/// last call before it that changed something.
final class CallTrace: Sendable {
    /// A call, as text with its arguments, and its place in the source of the checks.
    struct Call: Sendable {
        let text: String
        let file: StaticString
        let line: UInt
    }

    private struct State {
        var running: [Int: Call] = [:]
        var count = 0
        var lastChange: String?
    }

    /// The trace of the check that runs in this task; nil outside of checks.
    @TaskLocal static var current: CallTrace?

    private let state = Mutex(State())

    /// Makes a call of the subject.
    ///
    /// - Parameters:
    ///   - text: The call with its arguments.
    ///   - changes: Whether the call changes something if it succeeds.
    ///   - file: The file of the check.
    ///   - line: The line of the call.
    ///   - body: Makes the call.
    /// - Returns: The result of the call.
    /// - Throws: The error of `body` with the call.
    static func calling<Result>(
        _ text: String, changes: Bool, file: StaticString, line: UInt, _ body: () throws -> Result
    ) throws(FailedCall) -> Result {
        let call = Call(text: text, file: file, line: line)
        let number = current?.begin(call, changes: changes)
        defer { if let number { current?.end(number) } }
        do { return try body() } catch { throw FailedCall(call: call, error: error) }
    }

    private func begin(_ call: Call, changes: Bool) -> Int {
        state.withLock { state in
            state.count += 1
            state.running[state.count] = call
            if changes { state.lastChange = call.text }
            return state.count
        }
    }

    private func end(_ number: Int) {
        state.withLock { _ = $0.running.removeValue(forKey: number) }
    }

    /// What violations name as the last change: nil where they name the change themselves.
    func setLastChange(_ text: String?) {
        state.withLock { $0.lastChange = text }
    }

    /// The violation of a check that did not end within its time limit.
    func violation(atEndOf limit: Duration) -> ConformanceViolation {
        guard let call = state.withLock({ state in state.running.min { $0.key < $1.key }?.value }) else {
            return ConformanceViolation("did not end within \(limit)")
        }
        return ConformanceViolation("did not end within \(limit), in \(call.text)", file: call.file, line: call.line)
    }

    /// The description of a violation for this error, which the check did not expect.
    func description(of error: any Error) -> String {
        switch error {
        case let violation as ConformanceViolation:
            state.withLock { $0.lastChange.map { "after \($0): " } ?? "" } + violation.description
        case let failure as FailedCall: failure.violation.description
        default: "unexpected error \(error)"
        }
    }
}

/// The error of a call of the subject.
struct FailedCall: Error {
    let call: CallTrace.Call
    let error: any Error

    /// The violation if the call had to succeed.
    var violation: ConformanceViolation {
        ConformanceViolation("\(call.text): unexpected error \(error)", file: call.file, line: call.line)
    }
}
