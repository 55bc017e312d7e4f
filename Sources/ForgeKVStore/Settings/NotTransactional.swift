/// The error of an atomic change in a store without atomic changes.
public struct NotTransactional: Error, Hashable, CustomStringConvertible {
    /// The name of the setting.
    public var key: String

    public var description: String { "cannot change \(KeyName(key)) atomically: the store is not transactional" }
}
