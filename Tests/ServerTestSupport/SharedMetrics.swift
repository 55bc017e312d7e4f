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
