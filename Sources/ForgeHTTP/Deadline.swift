#if Etcd || S3
import AsyncHTTPClient

/// The time limit of a request, its answer included; the client's own ends with the head of the answer.
package enum Deadline {
    /// Runs `body`, and cancels it when the time is over.
    ///
    /// - Throws: `HTTPClientError.deadlineExceeded`, and the errors of `body`.
    package static func limiting<Success: Sendable>(
        _ limit: Duration, _ body: @escaping @Sendable () async throws -> Success
    ) async throws -> Success {
        try await withThrowingTaskGroup(of: Success?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try await Task.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            guard let result = try await group.next(), let result else { throw HTTPClientError.deadlineExceeded }
            return result
        }
    }
}
#endif
