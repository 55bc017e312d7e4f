/// What happens to a value that is there already when another one is imported under its name.
public enum KVExistingValue: Hashable, Sendable {
    /// It stays, and is named in the report.
    case keep

    /// It is replaced.
    case replace
}
