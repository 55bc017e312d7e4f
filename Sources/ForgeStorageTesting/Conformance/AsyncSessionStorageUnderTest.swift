public import ForgeStorage

/// A new, empty asynchronous session storage and what the checks do with it.
public struct AsyncSessionStorageUnderTest: Sendable {
    /// The storage.
    public var storage: any AsyncSessionStorage<ConformanceUser>

    /// The same session as another process accesses it.
    public var other: any AsyncSessionStorage<ConformanceUser>

    /// The time from saving a user to the end of the session; nil if it does not end.
    public var lifetime: Duration?

    /// By how much a session may outlive its lifetime.
    public var tolerance: Duration

    /// Lets time pass: waits, or advances the clock of the storage.
    public var pass: @Sendable (Duration) async throws -> Void

    /// Creates a subject.
    public init(
        _ storage: any AsyncSessionStorage<ConformanceUser>, other: any AsyncSessionStorage<ConformanceUser>,
        lifetime: Duration? = nil, tolerance: Duration = .zero,
        pass: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.storage = storage
        self.other = other
        self.lifetime = lifetime
        self.tolerance = tolerance
        self.pass = pass
    }
}
