#if Inspector
public import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import Synchronization

extension Inspector {
    /// Serves the page on 127.0.0.1 until the process receives SIGTERM or SIGINT, or the task is cancelled.
    ///
    /// Only this machine can connect, and only who knows the URL that `onStart` receives: its fragment is a random token,
    /// without which every answer with data is refused.
    ///
    /// - Parameters:
    ///   - port: The port; 0 for a free one.
    ///   - onStart: Called with the URL of the page once the server accepts connections.
    /// - Throws: The error of the system if the port is in use or not permitted.
    public func serve(port: Int, onStart: @escaping @Sendable (URL) -> Void) async throws {
        let responder = PageResponder(self, token: AccessToken())
        let server = Application(
            responder: responder,
            configuration: .init(address: .hostname("127.0.0.1", port: port), serverName: nil),
            onServerRunning: { channel in
                guard let port = channel.localAddress?.port, let url = responder.start(port) else { return }
                onStart(url)
            },
            logger: Logger(label: "ForgeInspector") { _ in SwiftLogNoOpLogHandler() })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.follow() }
            group.addTask { try await server.runService() }
            defer { group.cancelAll() }
            _ = try await group.next()
        }
    }
}
#endif
