/// The treatment of existing values by an import.
public enum KVExistingValue: Hashable, Sendable {
    /// Keeps it, and lists its name in the report.
    case keep

    /// Replaces it.
    case replace
}
