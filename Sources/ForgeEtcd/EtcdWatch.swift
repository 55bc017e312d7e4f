#if Etcd
import AsyncHTTPClient
import ForgeFileSystem
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
                // The error of a connection that was open and has ended names no endpoint.
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

/// The position of a watch: the changes reported so far, and the revision from which the next connection asks.
struct EtcdWatchState: Sendable {
    /// The result of a message.
    enum Output: Hashable, Sendable {
        case changes([KVChange])

        /// The server has ended the watch; a new connection continues.
        case interrupted

        /// The server has ended the watch because of the token or the user's rights.
        case notPermitted(String)
    }

    private let names: EtcdNames

    /// Whether the server reports every event from a revision, and sends notices of progress only after the events that
    /// they cover.
    let replays: Bool
    private var needsResync: Bool

    /// The first revision that was not reported; nil to begin with the present one.
    private(set) var next: UInt64?

    /// The changes of a transaction whose last event has not arrived.
    private var unfinished: [KVChange] = []

    /// The cluster of the last connection.
    private var clusterID: String?

    /// The number of connections in a row whose revision was before the position.
    private var lowRevisions = 0

    /// The maximum of that number that lagging members explain. Above it the cluster has lost its history.
    private static let lowRevisionLimit = 3

    /// The revision up to which every change was reported.
    var reported: UInt64? { next.map { $0 - 1 } }

    /// Creates the state of a watch.
    ///
    /// - Parameters:
    ///   - names: The names of the store.
    ///   - revision: The last revision that the consumer knows; nil for none.
    ///   - replays: Whether the server reports every event from a revision; if not, every connection begins with
    ///     the present revision and a `.resync`.
    init(_ names: EtcdNames, after revision: UInt64?, replays: Bool) {
        self.names = names
        self.replays = replays
        let revision = replays ? revision : nil
        next = revision.map { $0 == .max ? $0 : $0 + 1 }
        needsResync = revision == nil
    }

    mutating func receive(_ message: EtcdWatchResponse) -> Output {
        if message.canceled == true {
            if let compacted = message.compact_revision?.value, compacted > 0 {
                next = nil
                needsResync = true
                return .interrupted
            }
            guard let reason = message.cancel_reason, !reason.isEmpty else { return .interrupted }
            return .notPermitted(reason)
        }
        if message.created == true {
            // The connection repeats the transaction.
            unfinished = []
            guard isContinuing(message.header) else { return .interrupted }
        }
        let events = message.events ?? []
        // Nothing of a message that is not valid is reported.
        guard events.allSatisfy({ 1..<UInt64(Int64.max) ~= $0.kv.entry.revision }) else { return .interrupted }
        var changes: [KVChange] = []
        if message.created == true, needsResync {
            needsResync = false
            changes.append(.resync)
            if next == nil { next = message.header?.revision.map { UInt64(clamping: $0.value) + 1 } }
        }
        for (index, event) in events.enumerated() {
            let revision = event.kv.entry.revision
            let following = index + 1 < events.count ? events[index + 1].kv.entry.revision : nil
            // A watch resumes at a revision: one that ends inside a transaction repeats the whole transaction.
            let isLast = following.map { $0 != revision } ?? (message.fragment != true)
            let seen = isLast ? revision : revision - 1
            next = max(next ?? 0, seen + 1)
            if let name = names.name(of: event.kv.key) {
                unfinished.append(
                    .changed(name: name, entry: event.type == "DELETE" ? nil : event.kv.entry, revision: seen))
            }
            guard isLast else { continue }
            changes += unfinished
            unfinished = []
        }
        // A progress notice. Those of older servers may come before the events that they cover.
        if replays, message.created != true, message.events?.isEmpty ?? true, let seen = message.header?.revision {
            next = max(next ?? 0, UInt64(clamping: seen.value) + 1)
        }
        return .changes(changes)
    }

    /// Whether a new connection is to the same history as the last one; if not, the next one begins with a resync.
    private mutating func isContinuing(_ header: EtcdHeader?) -> Bool {
        defer { clusterID = header?.cluster_id ?? clusterID }
        guard let next, let header else { return true }
        if let old = clusterID, let new = header.cluster_id, old != new {
            (self.next, needsResync, lowRevisions) = (nil, true, 0)
            return false
        }
        guard let present = header.revision, UInt64(clamping: present.value) < next - 1 else {
            lowRevisions = 0
            return true
        }
        lowRevisions += 1
        if lowRevisions > Self.lowRevisionLimit { (self.next, needsResync, lowRevisions) = (nil, true, 0) }
        return false
    }

    /// The connection has ended.
    mutating func interrupt() {
        guard !replays else { return }
        next = nil
        needsResync = true
    }
}
#endif
