import Foundation

/// Accepts connections on a free port of loopback until it is released.
package final class LoopbackListener: Sendable {
    package let port: UInt16
    private let descriptor: Int32

    /// - Parameter serve: Serves a connection, and closes its descriptor. Called on the listener's thread: longer work
    ///   belongs on another one.
    /// - Throws: ``LoopbackSocket/Failed``.
    package init(_ serve: @escaping @Sendable (_ client: Int32) -> Void) throws {
        (descriptor, port) = try LoopbackSocket.listener()
        let descriptor = descriptor
        Thread.detachNewThread {
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0 else {
                    close(descriptor)
                    return
                }
                serve(client)
            }
        }
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }
}
