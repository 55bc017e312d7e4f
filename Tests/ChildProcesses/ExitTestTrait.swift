import Dispatch
package import Testing

/// Runs a test that expects a process to exit besides the queue of all other tests.
///
/// Swift Testing reaps such a process once the task of the test has run again, and polls until then. In the queue of a
/// whole run that takes minutes of processor time.
package struct ExitTestTrait: TestTrait, TestScoping {
    /// Where such a test runs, for tasks of its own that expect an exit.
    package static let executor: any TaskExecutor = ThreadsOfExitTests()

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(Self.executor) { try await function() }
    }
}

extension Trait where Self == ExitTestTrait {
    package static var startsProcess: Self { Self() }
}

/// Runs a suite whose tests take turns besides the queue of all other tests, in which each of them would wait for its turn.
package struct OwnThreadsTrait: SuiteTrait, TestScoping {
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ExitTestTrait.executor) { try await function() }
    }
}

extension Trait where Self == OwnThreadsTrait {
    package static var onOwnThreads: Self { Self() }
}

private final class ThreadsOfExitTests: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // A serial queue gets a thread at once, however many are blocked; a concurrent one waits for a free processor.
        DispatchQueue(label: "exit test").async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
