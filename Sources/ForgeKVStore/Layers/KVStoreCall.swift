/// A recorded call of a key-value store: its operation and names, never values.
public struct KVStoreCall: Hashable, Sendable, CustomStringConvertible {
    /// The operations of a store: one case for each requirement of ``KVStoring``, ``KVRawStoring`` and
    /// ``KVTransactionalStoring``.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case get, set, remove, contains, removeAll, read
        case keys, rawValue, setRawValue, removeValue
        case entry, snapshot, commit, synchronize, observeRemoteChanges
    }

    /// The operation.
    public var operation: Operation

    /// The names: none, one, or those that a batch changes and requires, in order.
    public var names: [String]

    /// Creates a recorded call.
    public init(_ operation: Operation, _ names: [String] = []) {
        self.operation = operation
        self.names = names
    }

    /// `set "theme"`.
    public var description: String {
        ([operation.rawValue] + names.map { KeyName($0).description }).joined(separator: " ")
    }
}
