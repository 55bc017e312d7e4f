/// The runs of a loop over failing calls that did not end as they should.
public struct FailingCallFailures: Error, Sendable, CustomStringConvertible {
    /// One such run.
    public struct Failure: Sendable, CustomStringConvertible {
        /// What failed in it; nil for the run without failures.
        public let call: FailingCall?

        /// What was wrong afterwards.
        public let problem: String

        /// The last calls of the body, the failed one among them unless it is long ago.
        public let transcript: String

        public var description: String {
            "\(call?.description ?? "no call fails"): \(problem)\n\(transcript)"
        }
    }

    /// The runs, at most ``maximumCount`` of them.
    public let failures: [Failure]

    /// How many runs there were in all that failed.
    public let count: Int

    /// The most runs that are told of.
    public static let maximumCount = 8

    public var description: String {
        let told = failures.map(\.description).joined(separator: "\n\n")
        guard count > failures.count else { return told }
        return "\(count) runs failed, the first \(failures.count) being\n\(told)"
    }
}

/// A loop over failing calls that proves nothing.
public struct NothingFailed: Error, Hashable, Sendable, CustomStringConvertible {
    /// Why nothing was tried.
    public let description: String
}
