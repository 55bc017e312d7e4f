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
