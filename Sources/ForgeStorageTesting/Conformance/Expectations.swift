import ForgeStorage
import Foundation

/// Throws a violation with both values unless they are equal.
package func expectEqual<Value: Equatable>(
    _ actual: Value, _ expected: Value, _ what: @autoclosure () -> String, file: StaticString = #fileID,
    line: UInt = #line
) throws {
    guard actual != expected else { return }
    throw ConformanceViolation("\(what()): expected \(expected), got \(actual)", file: file, line: line)
}

/// Throws a violation unless `condition` holds.
package func expect(
    _ condition: Bool, _ what: @autoclosure () -> String, file: StaticString = #fileID, line: UInt = #line
) throws {
    guard condition else { throw ConformanceViolation(what(), file: file, line: line) }
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
    /// Built by doubling, because a closure per byte is slow in debug builds.
    static func patterned(count: Int) -> Data {
        var bytes = Data((0..<4093).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        while bytes.count < count { bytes += bytes }
        return Data(bytes.prefix(count))
    }
}
