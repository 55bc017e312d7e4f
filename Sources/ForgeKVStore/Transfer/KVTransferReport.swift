/// The result of copying values between stores.
public struct KVTransferReport: Sendable {
    /// A value that was not copied.
    public struct Failure: Sendable {
        /// The name of the value.
        public var name: String

        /// The reason, without the value.
        public var error: KVStoreError
    }

    /// The number of values stored and verified.
    public internal(set) var copiedCount = 0

    /// The number of values that were already equal.
    public internal(set) var equalCount = 0

    /// The names whose existing, different values were kept.
    public internal(set) var keptNames: [String] = []

    /// The values that were not copied, sorted by name.
    public internal(set) var failures: [Failure] = []

    /// Whether every value was copied, was already equal, or had an existing value that was kept.
    public var isComplete: Bool { failures.isEmpty }
}

extension KVTransferReport: CustomStringConvertible {
    /// A summary line, then a line for each value that was not copied.
    public var description: String {
        let summary =
            "\(copiedCount) copied, \(equalCount) there already, \(keptNames.count) kept, \(failures.count) failed"
        return ([summary] + failures.map { "  \($0.error)" }).joined(separator: "\n")
    }
}
