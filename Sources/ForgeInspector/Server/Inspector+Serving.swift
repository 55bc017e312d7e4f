public import Crypto
package import ForgeFileSystem

/// Options of an ``Inspector``: the stores that it shows, and whether it may edit them.
public struct InspectorOptions: Sendable {
    /// Whether values may be edited. Without it, every write is refused before any store is opened.
    public var isWritable = false

    /// The keys that unlocking tries on a vault. They never leave the process.
    public var vaultKeys: [SymmetricKey] = []

    /// The decoders that are asked, in order, for the text of a value.
    public var decoders: [InspectorDecoder] = []

    /// The caches of this process whose hit rates are shown from the beginning; ``Inspector/register(_:)`` adds others.
    public var caches: [InspectedCache] = []

    /// Why the store in an open directory may not be edited; nil if it may be.
    package var refusal: @Sendable (_ directory: Descriptor) -> String? = { _ in nil }

    /// Creates options with default values.
    public init() {}
}

#if Inspector
public import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import Synchronization

extension Inspector {
    /// The number of connections at the same time; others wait until one is closed. A browser opens six.
    static let connectionLimit = 128

    /// How long a new connection may send nothing, or part of the head of its first request.
    private static let headLimit = Duration.seconds(5)

    /// How long the head of a request, its body, or a client that does not read its answer may take.
    private static let timeLimit = Duration.seconds(30)

    /// Serves the page on 127.0.0.1 until the process receives SIGTERM or SIGINT, or the task is cancelled.
    ///
    /// Only this machine can connect, and only who knows the URL that `onStart` receives: its fragment is a random
    /// token, without which every answer with data is refused. Requests that take more than 30 seconds are ended, new
    /// connections without a request after 5 seconds, and 128 connections at the same time are accepted.
    ///
    /// - Parameters:
    ///   - port: The port; 0 for a free one.
    ///   - onStart: Called with the URL of the page once the server accepts connections.
    /// - Throws: The error of the system if the port is in use or not permitted.
    public func serve(port: Int, onStart: @escaping @Sendable (URL) -> Void) async throws {
        try await serve(port: port, timeLimit: Self.timeLimit, onStart: onStart)
    }

    func serve(port: Int, timeLimit: Duration, onStart: @escaping @Sendable (URL) -> Void) async throws {
        let responder = PageResponder(self, token: AccessToken())
        let logger = Logger(label: "ForgeInspector") { _ in SwiftLogNoOpLogHandler() }
        let server = Application(
            responder: responder,
            server: .http1(configuration: Self.connections(TimeAmount(timeLimit))),
            configuration: .init(
                address: .hostname("127.0.0.1", port: port), serverName: nil,
                availableConnectionsDelegate: .maximum(Self.connectionLimit, logger: logger)),
            onServerRunning: { channel in
                guard let port = channel.localAddress?.port, let url = responder.start(port) else { return }
                onStart(url)
            },
            logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.follow() }
            group.addTask { try await server.runService() }
            defer { group.cancelAll() }
            _ = try await group.next()
        }
    }

    private static func connections(_ limit: TimeAmount) -> HTTP1Channel.Configuration {
        .init(
            additionalChannelHandlers: [RequestTimeLimit(limit, head: min(limit, TimeAmount(Self.headLimit)))],
            idleTimeout: limit,
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 32 << 10, maxHeaderFieldCount: 100))
    }
}
#endif
