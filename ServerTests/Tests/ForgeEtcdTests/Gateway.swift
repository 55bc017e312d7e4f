import Foundation

/// Requests to the JSON gateway besides the store.
struct Gateway {
    private let endpoint: String

    init(_ server: EtcdServer) {
        endpoint = server.endpoint
    }

    struct Refused: Error {
        var answer: String
    }

    @discardableResult
    func post(_ path: String, _ json: String, token: String? = nil) async throws -> String {
        let endpoint = endpoint
        return try await onThread {
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/curl")
            process.arguments =
                ["-sS", "--fail-with-body", "-m", "10", "-d", json]
                + (token.map { ["-H", "Authorization: \($0)"] } ?? [])
                + [endpoint + path]
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            let answer = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            guard process.terminationStatus == 0 else { throw Refused(answer: answer) }
            return answer
        }
    }
}
