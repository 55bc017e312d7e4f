#if Etcd
import AsyncHTTPClient
import ForgeKVStore
import NIOCore

extension HTTPClientResponse.Body {
    /// The chunks of a stream; a failure of the connection is an ``AsyncKVStoreError``.
    func mappingErrors() -> EtcdResponseBody { EtcdResponseBody(body: self) }
}

struct EtcdResponseBody: AsyncSequence {
    typealias Element = ByteBuffer
    typealias Failure = AsyncKVStoreError

    let body: HTTPClientResponse.Body

    func makeAsyncIterator() -> Iterator { Iterator(base: body.makeAsyncIterator()) }

    struct Iterator: AsyncIteratorProtocol {
        fileprivate var base: HTTPClientResponse.Body.AsyncIterator

        mutating func next(isolation actor: isolated (any Actor)?) async throws(AsyncKVStoreError) -> ByteBuffer? {
            do {
                return try await base.next(isolation: actor)
            } catch {
                throw AsyncKVStoreError(
                    Task.isCancelled ? .cancelled : .unavailable, .changes, underlying: error)
            }
        }
    }
}
#endif
