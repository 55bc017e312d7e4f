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

    /// What an implementation has to have for the promise to be one that it makes; nothing for most checks.
    public private(set) var needs: Set<ConformanceCapability>

    private let body: @Sendable (Subject) async throws -> Void

    /// A check of one promise.
    ///
    /// - Parameters:
    ///   - description: The promise, as a sentence.
    ///   - needs: What only some implementations have, and this check needs.
    ///   - body: Throws a ``ConformanceViolation`` when the subject breaks the promise.
    public init(
        _ description: String, needs: Set<ConformanceCapability> = [],
        _ body: @escaping @Sendable (_ subject: Subject) async throws -> Void
    ) {
        self.description = description
        self.needs = needs
        self.body = body
    }

    /// The same check for those only that have `capabilities` too.
    public func needing(_ capabilities: ConformanceCapability...) -> ConformanceCheck {
        var check = self
        check.needs.formUnion(capabilities)
        return check
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
