/// The failures that an acknowledged write survives.
public enum Durability: String, Hashable, Sendable, CaseIterable {
    /// Survives a power cut: the device has confirmed content and name.
    case full

    /// Survives a kill of the process, and is never torn; a power cut may revert to an earlier consistent state,
    /// because writes reach the device in order.
    case barrier

    /// Survives a kill of the process; a power cut may lose it.
    case none
}
