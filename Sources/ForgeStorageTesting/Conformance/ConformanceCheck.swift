/// A promise of a protocol, as a value that any test framework, or none, can check.
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

    /// The capabilities that an implementation needs for the promise to apply; usually none.
    public private(set) var needs: Set<ConformanceCapability>

    private let body: @Sendable (Subject) async throws -> Void

    /// Creates a check.
    ///
    /// - Parameters:
    ///   - description: The promise, as a sentence.
    ///   - needs: The capabilities that the check needs.
    ///   - body: Throws a ``ConformanceViolation`` if the subject breaks the promise.
    public init(
        _ description: String, needs: Set<ConformanceCapability> = [],
        _ body: @escaping @Sendable (_ subject: Subject) async throws -> Void
    ) {
        self.description = description
        self.needs = needs
        self.body = body
    }

    /// The same check with more needed capabilities.
    public func needing(_ capabilities: ConformanceCapability...) -> ConformanceCheck {
        var check = self
        check.needs.formUnion(capabilities)
        return check
    }

    /// The same check for another kind of subject that contains, or is, one of this kind.
    func on<Other>(
        _ subject: @escaping @Sendable (_ other: Other) -> Subject
    ) -> ConformanceCheck<Other> {
        ConformanceCheck<Other>(description, needs: needs) { [body] other in try await body(subject(other)) }
    }

    /// Runs the check on a new, empty subject.
    ///
    /// - Throws: A ``ConformanceViolation`` that names the promise, or an unexpected error of the subject.
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

/// A broken promise.
public struct ConformanceViolation: Error, Sendable, CustomStringConvertible {
    public let description: String

    /// Creates a violation that describes the expected and the actual behaviour.
    public init(_ description: String) {
        self.description = description
    }
}

/// The published lists of checks by protocol.
public enum ConformanceChecks {}
