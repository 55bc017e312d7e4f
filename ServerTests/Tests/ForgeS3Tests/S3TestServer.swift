import Foundation

@testable import ForgeS3

/// The server of the tests that need a whole one: that of the environment, or moto.
enum S3TestServer {
    struct NotOnLoopback: Error {}

    private static let variables = ProcessInfo.processInfo.environment

    /// The server that a script has started.
    private static let endpoint = variables["FORGE_S3_ENDPOINT"]

    /// Whether it is moto, which ignores the condition of a save in parts.
    static let isMoto = endpoint == nil

    /// Whether the tests can run.
    static let isAvailable = !isMoto || MotoServer.isInstalled

    /// A configuration with a bucket of its own, which is created.
    static func configuration() async throws -> S3FileStore.Configuration {
        guard let endpoint else { return try await MotoServer.shared().configuration() }
        guard endpoint.hasPrefix("http://127.0.0.1:") else { throw NotOnLoopback() }
        var configuration = S3FileStore.Configuration(
            bucket: "test-\(UUID().uuidString.lowercased())", region: "us-east-1",
            credentials: .environment(variables), endpoint: endpoint)
        configuration.deadline = .seconds(180)
        try await configuration.createBucket()
        return configuration
    }
}
