#if Etcd
import NIOCore
import Synchronization

/// The body of a request, which knows whether it was asked for: before that, nothing has reached a server.
///
/// The client asks for a streamed body after it has a connection and has written the head of the request.
final class EtcdRequestBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    private let bytes: ByteBuffer
    private let wasAskedFor = Mutex(false)

    init(_ bytes: ByteBuffer) {
        self.bytes = bytes
    }

    /// The number of bytes.
    var count: Int { bytes.readableBytes }

    /// Whether a server may have received the request.
    var mayBeSent: Bool { wasAskedFor.withLock { $0 } }

    func makeAsyncIterator() -> Iterator { Iterator(body: self) }

    struct Iterator: AsyncIteratorProtocol {
        fileprivate let body: EtcdRequestBody
        private var isDone = false

        fileprivate init(body: EtcdRequestBody) {
            self.body = body
        }

        mutating func next() async -> ByteBuffer? {
            guard !isDone else { return nil }
            isDone = true
            body.wasAskedFor.withLock { $0 = true }
            return body.bytes
        }
    }
}
#endif
