#if Etcd || S3
package import NIOCore
import Synchronization

/// The body of a request, which knows whether it was asked for: before that, nothing has reached a server.
///
/// The client asks for a streamed body after it has a connection and has written the head of the request.
package final class RequestBody: AsyncSequence, Sendable {
    package typealias Element = ByteBuffer

    private let bytes: ByteBuffer
    private let wasAskedFor = Mutex(false)

    package init(_ bytes: ByteBuffer) {
        self.bytes = bytes
    }

    /// The number of bytes.
    package var count: Int { bytes.readableBytes }

    /// Whether a server may have received the request.
    package var mayBeSent: Bool { wasAskedFor.withLock { $0 } }

    package func makeAsyncIterator() -> Iterator { Iterator(body: self) }

    package struct Iterator: AsyncIteratorProtocol {
        fileprivate let body: RequestBody
        private var isDone = false

        fileprivate init(body: RequestBody) {
            self.body = body
        }

        package mutating func next() async -> ByteBuffer? {
            guard !isDone else { return nil }
            isDone = true
            body.wasAskedFor.withLock { $0 = true }
            return body.bytes
        }
    }
}
#endif
