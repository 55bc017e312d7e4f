/// A list of checks with a name, to be run as a whole.
///
/// ```swift
/// let report = await ConformanceSuite.keyValueStore.run(on: "MyStore", having: [.keyListing]) { MyStore() }
/// print(report)
/// ```
///
/// With a test framework, run the checks one by one: `@Test(arguments: suite.checks(having: [.keyListing]))`.
public struct ConformanceSuite<Subject>: Sendable {
    /// What the suite is about.
    public let name: String

    /// The checks, whatever they need.
    public let checks: [ConformanceCheck<Subject>]

    /// A suite of these checks.
    public init(_ name: String, _ checks: [ConformanceCheck<Subject>]) {
        self.name = name
        self.checks = checks
    }

    /// Everything that any of the checks needs.
    public var capabilities: Set<ConformanceCapability> {
        checks.reduce(into: []) { $0.formUnion($1.needs) }
    }

    /// The checks for an implementation that has these capabilities and no others.
    public func checks(having capabilities: Set<ConformanceCapability>) -> [ConformanceCheck<Subject>] {
        checks.filter { $0.needs.isSubset(of: capabilities) }
    }

    /// Runs every check that applies on a subject of its own, one after the other.
    ///
    /// - Parameters:
    ///   - subject: What the report calls the implementation.
    ///   - capabilities: What the implementation has; everything unless set, so that a promise is left out only by
    ///     saying so.
    ///   - make: Makes a fresh, empty subject; if it throws, the check counts as violated.
    /// - Returns: What came of each check.
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
            // An unexpected error comes with the promise in front, which the report shows anyway.
            let promise = check.description + ": "
            return .violated(reason.hasPrefix(promise) ? String(reason.dropFirst(promise.count)) : reason)
        }
    }
}
