/// What a write has survived by the time it is acknowledged.
public enum Durability: String, Hashable, Sendable, CaseIterable {
    /// Kept through a power cut: the device has confirmed content and name.
    case full

    /// Kept through a kill of the process, and never torn; a power cut may take it back to an earlier state that was
    /// whole, because writes reach the device in order.
    case barrier

    /// Kept through a kill of the process; a power cut may lose it.
    case none
}
