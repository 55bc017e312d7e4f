import ForgeFileStore
import ForgeStorage
package import Foundation
import Synchronization

/// Throws a violation with both values unless they are equal.
package func expectEqual<Value: Equatable>(
    _ actual: Value, _ expected: Value, _ what: String, file: StaticString = #fileID, line: UInt = #line
) throws {
    guard actual != expected else { return }
    throw ConformanceViolation("\(what): expected \(shown(expected)), got \(shown(actual))", file: file, line: line)
}

/// Throws a violation with the sizes and the first difference unless both have the same bytes.
package func expectEqual(
    _ actual: Data?, _ expected: Data, _ what: String, file: StaticString = #fileID, line: UInt = #line
) throws {
    guard actual != expected else { return }
    guard let actual else {
        throw ConformanceViolation("\(what): expected \(shown(expected)), got nil", file: file, line: line)
    }
    var text = "\(what): expected \(shown(expected)), got \(shown(actual))"
    if max(actual.count, expected.count) > Shown.byteCount {
        let offset = zip(actual, expected).enumerated().first { $1.0 != $1.1 }?.offset
        text += "; the first difference is at byte \(offset ?? min(actual.count, expected.count))"
    }
    throw ConformanceViolation(text, file: file, line: line)
}

/// Throws a violation with the missing and the unexpected elements unless both sets are equal.
package func expectEqual(
    _ actual: Set<String>, _ expected: Set<String>, _ what: String, file: StaticString = #fileID, line: UInt = #line
) throws {
    guard actual != expected else { return }
    let missing = shown(expected.subtracting(actual).sorted())
    let surplus = shown(actual.subtracting(expected).sorted())
    throw ConformanceViolation(
        "\(what): expected \(expected.count), got \(actual.count): without \(missing), and besides \(surplus)",
        file: file, line: line)
}

/// Throws a violation unless `condition` holds.
package func expect(
    _ condition: Bool, _ what: String, file: StaticString = #fileID, line: UInt = #line
) throws {
    guard condition else { throw ConformanceViolation(what, file: file, line: line) }
}

/// Throws a violation unless `body` throws an error of this type, which is returned.
@discardableResult
package func expectError<Failure: Error, Result>(
    _ type: Failure.Type, _ what: String, file: StaticString = #fileID, line: UInt = #line,
    _ body: () async throws -> Result
) async throws -> Failure {
    let result: Result
    do {
        result = try await body()
    } catch let error as Failure {
        return error
    } catch {
        throw ConformanceViolation("\(what): expected \(type), got \(error)", file: file, line: line)
    }
    let returned = result is Void ? "" : " and it returned \(result)"
    throw ConformanceViolation("\(what): expected \(type), but nothing was thrown\(returned)", file: file, line: line)
}

/// A value as text that differs for different values, and is short.
func shown<Value>(_ value: Value) -> String {
    switch value {
    case let bytes as Data: Shown.text(bytes)
    case let file as StoredFile: Shown.text(file)
    case let files as [StoredFile] where Value.self is [StoredFile].Type:
        "[" + files.map { Shown.text($0) }.joined(separator: ", ") + "]"
    case let date as Date: "\(date.timeIntervalSince1970) s since 1970"
    case let text as String: text.escaped
    case let texts as [String] where Value.self is [String].Type:
        "[" + texts.map(\.escaped).joined(separator: ", ") + "]"
    default: "\(value)"
    }
}

private enum Shown {
    /// The maximum number of bytes that are shown.
    static let byteCount = 16

    static func text(_ bytes: Data) -> String {
        let hex = bytes.prefix(byteCount).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        return "\(bytes.count) bytes" + (hex.isEmpty ? "" : " (\(hex.joined(separator: " "))")
            + (bytes.count > byteCount ? " …)" : hex.isEmpty ? "" : ")")
    }

    static func text(_ file: StoredFile) -> String {
        "\(file.kind) \(file.key.escaped) of \(file.sizeInBytes) bytes, modified \(shown(file.modified))"
            + (file.revision.map { ", revision \($0)" } ?? "")
    }
}

extension String {
    /// The text in quotes, everything but printable ASCII escaped, so that names with equal characters differ; a long
    /// one shortened.
    var escaped: String {
        let shown = unicodeScalars.prefix(48).map { $0.escaped(asASCII: true) }.joined()
        let count = utf8.count
        return "\"\(shown)\"" + (unicodeScalars.count > 48 ? "… (\(count) bytes)" : "")
    }
}

/// The value that the checks of storages store.
let hello = Data("hello world".utf8)

/// The blocking call; in an async context the compiler would choose the asynchronous one.
func fetchNow(_ key: String, from storage: any Storage) throws -> Data {
    try storage.fetchValue(for: key)
}

/// The blocking call.
func saveNow(_ value: Data, for key: String, in storage: any Storage) throws {
    try storage.save(value: value, for: key)
}

/// The result passed to a call's handler.
func outcome(of call: (@escaping Handler<Data>) -> Void) async -> Result<Data, any Error> {
    await withCheckedContinuation { continuation in
        call { continuation.resume(returning: $0) }
    }
}

func expectNotFound(
    _ key: String, in storage: any Storage, file: StaticString = #fileID, line: UInt = #line
) async throws {
    let error = try await expectError(StorageError.self, "fetching \(key)", file: file, line: line) {
        try fetchNow(key, from: storage)
    }
    try expect(error.isNotFound, "fetching \(key): expected notFound, got \(error)", file: file, line: line)
}

extension StorageError {
    var isNotFound: Bool { if case .notFound = self { true } else { false } }
    var isCantRead: Bool { if case .cantRead = self { true } else { false } }
    var isCantWrite: Bool { if case .cantWrite = self { true } else { false } }
    var isCantRemove: Bool { if case .cantRemove = self { true } else { false } }
}

extension Data {
    /// Bytes of every value, with a period that divides no page or buffer size.
    ///
    /// Built from copies of the period, because a closure per byte is slow in debug builds.
    static func patterned(count: Int) -> Data {
        let period = Data((0..<4093).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        var bytes = Data(capacity: count)
        while bytes.count < count { bytes += period.prefix(count - bytes.count) }
        return bytes
    }
}

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
        var running: [Int: (text: String, place: Call?)] = [:]
        /// The call that failed last of those whose errors checks may expect, and its error.
        var failed: (text: String, error: String)?
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
        let number = current?.begin(text, call, changes: changes)
        defer { if let number { current?.end(number) } }
        do { return try body() } catch { throw FailedCall(call: call, error: error) }
    }

    /// Makes a call of a subject whose errors the check expects, or not: those that it does not are reported with the call.
    static func naming<Result>(_ text: @autoclosure () -> String, _ body: () throws -> Result) rethrows -> Result {
        guard let trace = current else { return try body() }
        let text = text()
        let number = trace.begin(text, nil, changes: false)
        defer { trace.end(number) }
        do {
            return try body()
        } catch {
            trace.state.withLock { $0.failed = (text, "\(error)") }
            throw error
        }
    }

    private func begin(_ text: String, _ place: Call?, changes: Bool) -> Int {
        state.withLock { state in
            state.count += 1
            state.running[state.count] = (text, place)
            if changes { state.lastChange = text }
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
        let text = "did not end within \(limit), in \(call.text)"
        guard let place = call.place else { return ConformanceViolation(text) }
        return ConformanceViolation(text, file: place.file, line: place.line)
    }

    /// The description of a violation for this error, which the check did not expect.
    func description(of error: any Error) -> String {
        switch error {
        case let violation as ConformanceViolation:
            state.withLock { $0.lastChange.map { "after \($0): " } ?? "" } + violation.description
        case let failure as FailedCall: failure.violation.description
        default:
            state.withLock { state in
                state.failed.flatMap { $0.error == "\(error)" ? "\($0.text): " : nil } ?? ""
            } + "unexpected error \(error)"
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
