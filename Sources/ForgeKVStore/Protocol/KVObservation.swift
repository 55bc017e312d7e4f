/// A subscription to the changes of a store, which ends when the object is released.
public final class KVObservation: Sendable {
    private let cancel: @Sendable () -> Void

    /// Creates an observation that calls `cancel` once, in its `deinit`.
    public init(cancel: @escaping @Sendable () -> Void) {
        self.cancel = cancel
    }

    /// Combines several observations; nil if there is none.
    convenience init?(_ parts: KVObservation?...) {
        let parts = parts.compactMap(\.self)
        guard !parts.isEmpty else { return nil }
        self.init { withExtendedLifetime(parts) {} }
    }

    deinit { cancel() }
}
