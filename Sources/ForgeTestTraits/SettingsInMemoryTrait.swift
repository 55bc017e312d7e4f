import ForgeKVStore
public import Testing

extension Trait where Self == SettingsInMemoryTrait {
    /// Gives each test, and each of its cases, a `DefaultSettingsStore` of its own, which is empty and in
    /// memory.
    ///
    /// ```swift
    /// @Suite(.settingsInMemory) struct EditorTests {
    ///     @Test func defaultFontSize() { #expect(Setting(.fontSize).wrappedValue == 13) }
    /// }
    /// ```
    public static var settingsInMemory: Self { Self() }
}

/// The trait of tests and suites whose settings are in memory, fresh for each test, also when tests run in parallel,
/// are repeated or have arguments.
///
/// Child tasks of a test have its settings; detached tasks and other threads have those of the process.
public struct SettingsInMemoryTrait: SuiteTrait, TestTrait, TestScoping {
    /// The tests of a suite and of the suites in it have the trait, not the suite as a whole.
    public var isRecursive: Bool { true }

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await DefaultSettingsStore.withStore(InMemoryKVStore()) { try await function() }
    }
}
