import ChildProcesses
import Foundation
import ServerTestSupport

/// Requests to the JSON gateway besides the store.
package struct Gateway: Sendable {
    private let endpoint: String

    package init(_ server: EtcdServer) { self.init(server.endpoint) }

    package init(_ endpoint: String) {
        self.endpoint = endpoint
    }

    package struct Refused: Error {
        package var answer: String
    }

    @discardableResult
    package func post(_ path: String, _ json: String, token: String? = nil) async throws -> String {
        let endpoint = endpoint
        return try await onThread {
            // The request as input: arguments are limited in length.
            let run = try ChildProcess.run(
                "/usr/bin/curl",
                ["-sS", "--fail-with-body", "-m", "10", "-d", "@-"]
                    + (token.map { ["-H", "Authorization: \($0)"] } ?? [])
                    + [endpoint + path], input: Data(json.utf8))
            let answer = String(decoding: run.output + run.errors, as: UTF8.self)
            guard run.end == .exit(0) else { throw Refused(answer: answer) }
            return answer
        }
    }
}
