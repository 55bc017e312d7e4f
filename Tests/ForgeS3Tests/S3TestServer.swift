#if S3
import Foundation
import S3Servers

@testable import ForgeS3

/// The server of the tests that need a whole one: that of the environment, or moto.
enum S3TestServer {
    struct NotOnLoopback: Error {}

    private static let variables = ProcessInfo.processInfo.environment

    /// The server that a script has started.
    private static let endpoint = variables["FORGE_S3_ENDPOINT"]

    /// Whether it is moto; otherwise it is radosgw, as the script starts it.
    private static let isMoto = endpoint == nil

    /// Whether it keeps `If-None-Match` at the end of an upload in parts. radosgw ignores it.
    static let createsPartsExclusively = isMoto

    /// Whether it keeps `If-Match` of a plain save. radosgw compares the quotes too, and refuses every ETag.
    static let replacesConditionally = isMoto

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
#endif
