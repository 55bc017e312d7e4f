/// The failed runs of a loop over failing calls.
public struct FailingCallFailures: Error, Sendable, CustomStringConvertible {
    /// A failed run.
    public struct Failure: Sendable, CustomStringConvertible {
        /// The failing call; nil for the run without failures.
        public let call: FailingCall?

        /// The problem found after the run.
        public let problem: String

        /// The last calls of the body, then the last messages of stores (``FaultingFileSystem/logger``).
        public let transcript: String

        public var description: String {
            "\(call?.description ?? "no call fails"): \(problem)\n\(transcript)"
        }
    }

    /// The failed runs, at most ``maximumCount``.
    public let failures: [Failure]

    /// The total number of failed runs.
    public let count: Int

    /// The maximum number of runs to report.
    public static let maximumCount = 8

    public var description: String {
        let told = failures.map(\.description).joined(separator: "\n\n")
        guard count > failures.count else { return told }
        return "\(count) runs failed, the first \(failures.count) being\n\(told)"
    }
}

/// A loop over failing calls that exercised nothing.
public struct NothingFailed: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason why nothing was exercised.
    public let description: String
}
