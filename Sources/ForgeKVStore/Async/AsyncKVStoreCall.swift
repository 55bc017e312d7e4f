/// A call of an asynchronous store: its operation and names, never values.
public struct AsyncKVStoreCall: Hashable, Sendable, CustomStringConvertible {
    /// `.read`, `.batch` for every write, `.keys` for a page of names or values, `.changes` or `.capabilities`.
    public var operation: AsyncKVStoreError.Operation

    /// The name that is read, the prefix that is listed or followed, or the names that a batch changes and then those
    /// that it requires, in order.
    public var names: [String]

    /// Creates a call.
    public init(_ operation: AsyncKVStoreError.Operation, _ names: [String] = []) {
        self.operation = operation
        self.names = names
    }

    /// The call that commits a batch.
    public init(_ batch: KVBatch) {
        self.init(.batch, batch.changes.map(\.name) + batch.requirements.map(\.name))
    }

    /// `batch "theme"`.
    public var description: String {
        ([operation.rawValue] + names.map { KeyName($0).description }).joined(separator: " ")
    }
}
