#if Etcd || S3
package import AsyncHTTPClient
package import NIOCore
import Synchronization

/// The body of a request, which knows whether it was asked for: before that, nothing has reached a server.
///
/// The client asks for a body after it has a connection and has written the head of the request.
package final class RequestBody: Sendable {
    fileprivate let bytes: ByteBuffer
    private let wasAskedFor = Mutex(false)

    /// The largest body that is sent as a collection: faster than a sequence, but copied.
    private static let copiedCount = 1 << 16

    package init(_ bytes: ByteBuffer) {
        self.bytes = bytes
    }

    /// The number of bytes.
    package var count: Int { bytes.readableBytes }

    /// Whether a server may have received the request.
    package var mayBeSent: Bool { wasAskedFor.withLock { $0 } }

    /// The body for the client.
    package var content: HTTPClientRequest.Body {
        count <= Self.copiedCount
            ? .bytes(Bytes(body: self)) : .stream(Parts(body: self), length: .known(Int64(count)))
    }

    fileprivate func ask() { wasAskedFor.withLock { $0 = true } }

    /// The bytes one by one. The client reads them when it needs them.
    private struct Bytes: RandomAccessCollection {
        let body: RequestBody

        private var view: ByteBufferView { body.bytes.readableBytesView }
        var startIndex: Int { view.startIndex }
        var endIndex: Int { view.endIndex }

        subscript(position: Int) -> UInt8 {
            body.ask()
            return view[position]
        }

        func withContiguousStorageIfAvailable<Result>(
            _ body: (UnsafeBufferPointer<UInt8>) throws -> Result
        ) rethrows -> Result? {
            self.body.ask()
            return try view.withContiguousStorageIfAvailable(body)
        }
    }

    /// All bytes as one element.
    private struct Parts: AsyncSequence, Sendable {
        let body: RequestBody

        struct Iterator: AsyncIteratorProtocol {
            let body: RequestBody
            var isDone = false

            mutating func next() async -> ByteBuffer? {
                guard !isDone else { return nil }
                isDone = true
                body.ask()
                return body.bytes
            }
        }

        func makeAsyncIterator() -> Iterator { Iterator(body: self.body) }
    }
}
#endif
