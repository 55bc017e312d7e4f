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
    ///   - limit: The maximum duration of each check.
    ///   - clock: The clock that measures the limit.
    ///   - starting: Called with the description of each applicable check before it runs, so that a log names the check
    ///     that ends the process or exceeds a limit of the test framework.
    ///   - make: Makes a new, empty subject; if it throws, the check counts as violated.
    /// - Returns: The outcome of each check.
    public func run(
        on subject: String, having capabilities: Set<ConformanceCapability>? = nil,
        within limit: Duration = .seconds(120),
        on clock: any Clock<Duration> = ContinuousClock(), starting: (_ check: String) -> Void = { _ in },
        make: @Sendable () async throws -> sending Subject
    ) async -> ConformanceReport {
        var results: [ConformanceReport.Result] = []
        for check in checks {
            let missing = capabilities.map { check.needs.subtracting($0) } ?? []
            let outcome: ConformanceReport.Outcome
            if missing.isEmpty {
                starting(check.description)
                outcome = await self.outcome(of: check, within: limit, on: clock, make)
            } else {
                let names = missing.map(\.description).sorted()
                outcome = .notApplicable("needs " + names.joined(separator: " and "))
            }
            results.append(.init(check: check.description, outcome: outcome))
        }
        return ConformanceReport(suite: name, subject: subject, results: results)
    }

    private func outcome(
        of check: ConformanceCheck<Subject>, within limit: Duration, on clock: any Clock<Duration>,
        _ make: @Sendable () async throws -> sending Subject
    ) async -> ConformanceReport.Outcome {
        do {
            try await check.run(on: try await make(), within: limit, on: clock)
            return .passed
        } catch {
            let reason = "\(error)"
            // A violation begins with the promise, which the report shows already.
            let promise = check.description + ": "
            return .violated(reason.hasPrefix(promise) ? String(reason.dropFirst(promise.count)) : reason)
        }
    }
}
