/// What came of carrying values from one place into another.
public struct KVTransferReport: Sendable {
    /// A value that was not carried over.
    public struct Failure: Sendable {
        /// The name of the value.
        public var name: String

        /// Why, without the value.
        public var error: KVStoreError
    }

    /// How many values were stored, and read back equal.
    public internal(set) var copiedCount = 0

    /// How many values were there already, and equal.
    public internal(set) var equalCount = 0

    /// The names under which there was another value already, which was kept.
    public internal(set) var keptNames: [String] = []

    /// What was not carried over, in the order of the names.
    public internal(set) var failures: [Failure] = []

    /// Whether every value of the source is at its destination, or kept another one there.
    public var isComplete: Bool { failures.isEmpty }
}

extension KVTransferReport: CustomStringConvertible {
    /// A line of figures, then one for each value that was not carried over.
    public var description: String {
        let summary =
            "\(copiedCount) copied, \(equalCount) there already, \(keptNames.count) kept, \(failures.count) failed"
        return ([summary] + failures.map { "  \($0.error)" }).joined(separator: "\n")
    }
}
