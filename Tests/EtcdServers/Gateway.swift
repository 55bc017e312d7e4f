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
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/curl")
            // The request in a file of its own: arguments are limited in length.
            process.arguments =
                ["-sS", "--fail-with-body", "-m", "10", "-d", "@-"]
                + (token.map { ["-H", "Authorization: \($0)"] } ?? [])
                + [endpoint + path]
            let (input, output) = (Pipe(), Pipe())
            process.standardInput = input
            process.standardOutput = output
            process.standardError = output
            try process.run()
            try input.fileHandleForWriting.write(contentsOf: Data(json.utf8))
            try input.fileHandleForWriting.close()
            let answer = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            guard process.terminationStatus == 0 else { throw Refused(answer: answer) }
            return answer
        }
    }
}
