#if Etcd
import ForgeFileSystem
import AsyncHTTPClient
import ForgeHTTP
import ForgeKVStore
import Foundation
import Logging
import NIOCore

/// The changes of a watch for one consumer.
///
/// A task reads the connection, one message for each demand, so that a slow consumer makes the server wait.
final class EtcdChangeSource: Sendable {
    typealias Batch = Result<KVChangeSet, KVStoreError>

    private let demand: AsyncStream<Void>.Continuation
    private let batches: AsyncStream<Batch>
    private let task: Task<Void, Never>

    init(_ transport: EtcdTransport, _ names: EtcdNames, prefix: String, from revision: UInt64?) {
        let (demands, demand) = AsyncStream.makeStream(of: Void.self)
        let (batches, results) = AsyncStream.makeStream(of: Batch.self)
        self.demand = demand
        self.batches = batches
        task = Task {
            let watch = EtcdWatch(transport, names, prefix: prefix, from: revision)
            await watch.run(demands, results)
            results.finish()
        }
    }

    deinit {
        task.cancel()
        demand.finish()
    }

    /// The changes of the next message, which are of complete transactions; nil if the task is cancelled.
    func next() async throws(KVStoreError) -> KVChangeSet? {
        guard !Task.isCancelled else {
            task.cancel()
            return nil
        }
        demand.yield()
        var iterator = batches.makeAsyncIterator()
        guard let batch = await iterator.next() else {
            task.cancel()
            return nil
        }
        return try batch.get()
    }
}

/// The connections of one watch, one after the other.
private struct EtcdWatch {
    private let transport: EtcdTransport
    private let names: EtcdNames
    private let prefix: String
    private let revision: UInt64?

    init(_ transport: EtcdTransport, _ names: EtcdNames, prefix: String, from revision: UInt64?) {
        self.transport = transport
        self.names = names
        self.prefix = prefix
        self.revision = revision
    }

    /// Answers each demand with changes or an error, until the task is cancelled.
    func run(_ demands: AsyncStream<Void>, _ results: AsyncStream<EtcdChangeSource.Batch>.Continuation) async {
        var state: EtcdWatchState?
        var refusals = 0
        var backoff = Backoff()
        var demand = demands.makeAsyncIterator()
        guard await demand.next() != nil else { return }
        while !Task.isCancelled {
            do throws(KVStoreError) {
                var watch: EtcdWatchState
                if let state {
                    watch = state
                } else {
                    watch = EtcdWatchState(
                        names, after: revision, replays: try await transport.replaysChanges())
                }
                defer {
                    watch.interrupt()
                    state = watch
                }
                let body = try await transport.open(
                    EtcdCall(path: "/v3/watch", operation: .changes, key: nil), request(watch))
                var lines = EtcdLines()
                for try await chunk in body.mappingErrors() {
                    for line in try lines.append(chunk) {
                        let message = try message(line)
                        switch watch.receive(message) {
                        case .changes(let changes):
                            // A notice of an old server proves nothing.
                            guard message.events?.isEmpty == false || !changes.isEmpty || watch.replays else {
                                continue
                            }
                            if !changes.isEmpty { (refusals, backoff) = (0, Backoff()) }
                            results.yield(.success(KVChangeSet(changes, revision: watch.reported)))
                            guard await demand.next() != nil else { return }
                        case .interrupted:
                            throw KVStoreError(.unavailable(.server), .changes, detail: "the watch was ended")
                        case .notPermitted(let reason):
                            throw KVStoreError(.refused, .changes, detail: reason)
                        }
                    }
                }
            } catch {
                guard !Task.isCancelled else { return }
                if error.code == .refused {
                    refusals += 1
                    transport.forgetToken()
                }
                // A token that has expired is refused like missing rights: log in once before reporting it.
                let mayRecover = error.code == .refused && refusals < 2 && transport.configuration.credentials != nil
                // A connection that was open and has ended has no endpoint.
                let isInterruption = error.code == .unavailable(.server) && error.endpoint == nil
                if !mayRecover, !isInterruption {
                    results.yield(.failure(error))
                    guard await demand.next() != nil else { return }
                }
            }
            transport.configuration.logger.notice("a watch was interrupted")
            var generator = SystemRandomNumberGenerator()
            do { try await Task.sleep(for: backoff.next(using: &generator)) } catch { return }
        }
    }

    private func request(_ state: EtcdWatchState) -> EtcdWatchRequest {
        EtcdWatchRequest(
            create_request: .init(
                key: names.start(of: prefix), range_end: names.end(of: prefix),
                start_revision: state.next.map { EtcdInteger(Int64(clamping: $0)) }))
    }

    private func message(_ line: Data) throws(KVStoreError) -> EtcdWatchResponse {
        let message: EtcdStreamed<EtcdWatchResponse>
        do {
            message = try JSONDecoder().decode(EtcdStreamed<EtcdWatchResponse>.self, from: line)
        } catch {
            throw KVStoreError(.unavailable(.server), .changes, detail: "a message is not valid")
        }
        if let result = message.result { return result }
        throw KVStoreError(.unavailable(.server), .changes, detail: message.error?.message)
    }
}

/// The lines of a stream, whose chunks end anywhere.
struct EtcdLines: Sendable {
    /// The longest line. The server splits messages that are longer than its largest request, by default 1.5 MiB.
    static let limit = 64 << 20

    private var rest = Data()

    /// The lines that end in a chunk.
    ///
    /// - Throws: `unavailable` if a line exceeds the limit.
    mutating func append(_ chunk: ByteBuffer) throws(KVStoreError) -> [Data] {
        var lines: [Data] = []
        var bytes = chunk.readableBytesView
        while let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
            let line = rest + bytes[..<end]
            rest = Data()
            bytes = bytes[(end + 1)...]
            if !line.isEmpty { lines.append(line) }
        }
        rest += bytes
        guard rest.count <= Self.limit else {
            throw KVStoreError(.unavailable(.server), .changes, detail: "a message exceeds \(Self.limit) bytes")
        }
        return lines
    }
}

extension HTTPClientResponse.Body {
    /// The chunks of a stream; a failure of the connection is an ``KVStoreError``.
    func mappingErrors() -> EtcdResponseBody { EtcdResponseBody(body: self) }
}

struct EtcdResponseBody: AsyncSequence {
    typealias Element = ByteBuffer
    typealias Failure = KVStoreError

    let body: HTTPClientResponse.Body

    func makeAsyncIterator() -> Iterator { Iterator(base: body.makeAsyncIterator()) }

    struct Iterator: AsyncIteratorProtocol {
        fileprivate var base: HTTPClientResponse.Body.AsyncIterator

        mutating func next(isolation actor: isolated (any Actor)?) async throws(KVStoreError) -> ByteBuffer? {
            do {
                return try await base.next(isolation: actor)
            } catch {
                var failure = KVStoreError(Task.isCancelled ? .cancelled : .unavailable(.server), .changes)
                failure.underlying = error  // An error of the connection contains no value.
                throw failure
            }
        }
    }
}
#endif
