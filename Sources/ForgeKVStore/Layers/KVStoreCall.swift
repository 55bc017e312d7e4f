/// A call of a key-value store: which, and with what names, never with what values.
public struct KVStoreCall: Hashable, Sendable, CustomStringConvertible {
    /// What a store can be asked to do: one case for each requirement of ``KVStoring``, ``KVRawStoring`` and
    /// ``KVTransactionalStoring``.
    public enum Operation: String, Hashable, Sendable, CaseIterable {
        case get, set, remove, contains, removeAll, read
        case keys, rawValue, setRawValue, removeValue
        case entry, snapshot, commit, synchronize, observeRemoteChanges
    }

    /// What was called.
    public var operation: Operation

    /// The names that it was about: none, one, or those that a batch changes and requires, in its order.
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
