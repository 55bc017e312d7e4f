import Foundation

#if Etcd || S3
import Metrics
package import MetricsTestKit

/// The metrics of all tests of the process, which has one back end.
package enum SharedMetrics {
    package static let metrics: TestMetrics = {
        let metrics = TestMetrics()
        MetricsSystem.bootstrap(metrics)
        return metrics
    }()
}
#endif

/// Runs blocking work on a thread of its own, because the pool has few.
package func onThread<Success: Sendable>(_ body: @escaping @Sendable () throws -> Success) async throws -> Success {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
}
