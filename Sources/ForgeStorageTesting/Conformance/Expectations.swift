/// Throws a violation with both values unless they are equal.
package func expectEqual<Value: Equatable>(_ actual: Value, _ expected: Value, _ what: String) throws {
    guard actual == expected else { throw ConformanceViolation("\(what): expected \(expected), got \(actual)") }
}

/// Throws a violation unless `condition` holds.
package func expect(_ condition: Bool, _ what: String) throws {
    guard condition else { throw ConformanceViolation(what) }
}

/// Throws a violation unless `body` throws an error of this type, which is returned.
@discardableResult
package func expectError<Failure: Error, Result>(
    _ type: Failure.Type, _ what: String, _ body: () async throws -> Result
) async throws -> Failure {
    do {
        _ = try await body()
    } catch let error as Failure {
        return error
    } catch {
        throw ConformanceViolation("\(what): expected \(type), got \(error)")
    }
    throw ConformanceViolation("\(what): expected \(type), but nothing was thrown")
}
