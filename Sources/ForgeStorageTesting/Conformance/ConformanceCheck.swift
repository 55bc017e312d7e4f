/// One promise that every implementation of a protocol keeps, as a value that any test framework, or none, can run.
///
/// ```swift
/// @Test(arguments: ConformanceChecks.keyValueStore)
/// func conforms(_ check: ConformanceCheck<any KVStoring>) async throws {
///     try await check.run(on: MyStore())
/// }
/// ```
public struct ConformanceCheck<Subject>: Sendable, CustomStringConvertible {
    /// The promise, as a sentence: "a removed key is absent".
    public let description: String

    private let body: @Sendable (Subject) async throws -> Void

    /// A check of one promise; `body` throws a ``ConformanceViolation`` when `subject` breaks it.
    public init(_ description: String, _ body: @escaping @Sendable (_ subject: Subject) async throws -> Void) {
        self.description = description
        self.body = body
    }

    /// Runs the check on a fresh, empty subject, which no other check has touched.
    ///
    /// - Throws: A ``ConformanceViolation`` that names the promise, or whatever error the subject threw unexpectedly.
    public func run(on subject: Subject) async throws {
        do {
            try await body(subject)
        } catch let violation as ConformanceViolation {
            throw violation
        } catch {
            throw ConformanceViolation("\(description): unexpected error \(error)")
        }
    }
}

/// A promise that was not kept.
public struct ConformanceViolation: Error, Sendable, CustomStringConvertible {
    public let description: String

    /// A violation that says what was expected and what was seen.
    public init(_ description: String) {
        self.description = description
    }
}

/// The published lists of checks, one for each protocol.
public enum ConformanceChecks {}
