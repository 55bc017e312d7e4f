import Dispatch
package import Testing

/// Runs a test, or a suite as a whole, besides the queue of all other tests.
///
/// For a test that expects a process to exit: Swift Testing reaps the process once the task of the test has run again,
/// and polls until then, which takes minutes of processor time in the queue of a whole run. For a suite whose tests take
/// turns: in the queue each of them would wait for its turn.
package struct OwnThreadsTrait: TestTrait, SuiteTrait, TestScoping {
    /// Where such a test runs, for tasks of its own that expect an exit.
    package static let executor: any TaskExecutor = OwnThreads()

    package func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
        test.isSuite || testCase != nil ? self : nil
    }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(Self.executor) { try await function() }
    }
}

extension Trait where Self == OwnThreadsTrait {
    package static var onOwnThreads: Self { Self() }
}

private final class OwnThreads: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // A serial queue gets a thread at once, however many are blocked; a concurrent one waits for a free processor.
        DispatchQueue(label: "own thread").async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
