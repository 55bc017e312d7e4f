/// A named list of checks.
///
/// ```swift
/// let report = await ConformanceSuite.keyValueStore.run(on: "MyStore", having: [.typedReads]) { MyStore() }
/// print(report)
/// ```
///
/// In a test framework, run single checks: `@Test(arguments: suite.checks(having: [.typedReads]))`.
public struct ConformanceSuite<Subject>: Sendable {
    /// The protocol that the suite checks.
    public let name: String

    /// All checks, including those that need capabilities.
    public let checks: [ConformanceCheck<Subject>]

    /// Creates a suite.
    public init(_ name: String, _ checks: [ConformanceCheck<Subject>]) {
        self.name = name
        self.checks = checks
    }

    /// All capabilities that the checks need.
    public var capabilities: Set<ConformanceCapability> {
        checks.reduce(into: []) { $0.formUnion($1.needs) }
    }

    /// The checks that apply to an implementation with exactly these capabilities.
    public func checks(having capabilities: Set<ConformanceCapability>) -> [ConformanceCheck<Subject>] {
        checks.filter { $0.needs.isSubset(of: capabilities) }
    }

    /// Runs every applicable check, each on a new subject, one after the other.
    ///
    /// - Parameters:
    ///   - subject: The name of the implementation in the report.
    ///   - capabilities: The capabilities of the implementation; all by default, so that leaving out a check is
    ///     explicit.
    ///   - make: Makes a new, empty subject; if it throws, the check counts as violated.
    /// - Returns: The outcome of each check.
    public func run(
        on subject: String, having capabilities: Set<ConformanceCapability>? = nil,
        make: @Sendable () async throws -> sending Subject
    ) async -> ConformanceReport {
        var results: [ConformanceReport.Result] = []
        for check in checks {
            results.append(
                .init(check: check.description, outcome: await outcome(of: check, having: capabilities, make)))
        }
        return ConformanceReport(suite: name, subject: subject, results: results)
    }

    private func outcome(
        of check: ConformanceCheck<Subject>, having capabilities: Set<ConformanceCapability>?,
        _ make: @Sendable () async throws -> sending Subject
    ) async -> ConformanceReport.Outcome {
        let missing = capabilities.map { check.needs.subtracting($0) } ?? []
        guard missing.isEmpty else {
            return .notApplicable("needs " + missing.map(\.description).sorted().joined(separator: " and "))
        }
        do {
            try await check.run(on: try await make())
            return .passed
        } catch {
            let reason = "\(error)"
            // An unexpected error starts with the promise, which the report shows already.
            let promise = check.description + ": "
            return .violated(reason.hasPrefix(promise) ? String(reason.dropFirst(promise.count)) : reason)
        }
    }
}
