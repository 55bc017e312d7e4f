/// What an import does with an existing value of the same name.
public enum KVExistingValue: Hashable, Sendable {
    /// Keeps it, and lists its name in the report.
    case keep

    /// Replaces it.
    case replace
}
