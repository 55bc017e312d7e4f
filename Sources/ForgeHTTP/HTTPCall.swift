#if Etcd || S3
package import AsyncHTTPClient
package import NIOCore
package import NIOSSL
import Synchronization

// Memory safety: A view's memory is valid during the call of the closure that gets it.

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
            return try unsafe view.withContiguousStorageIfAvailable(body)
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

/// The time limit of a request, its answer included; the client's own ends with the head of the answer.
package enum Deadline {
    /// Runs `body`, and cancels it when the time is over.
    ///
    /// - Throws: `HTTPClientError.deadlineExceeded`, and the errors of `body`.
    package static func limiting<Success: Sendable>(
        _ limit: Duration, _ body: @escaping @Sendable () async throws -> Success
    ) async throws -> Success {
        let task = Task { try await body() }
        let id = DeadlineScheduler.shared.add(.now + limit) { task.cancel() }
        let result = await withTaskCancellationHandler {
            await task.result
        } onCancel: {
            task.cancel()
        }
        let hasExpired = !DeadlineScheduler.shared.remove(id)
        do {
            return try result.get()
        } catch {
            throw hasExpired && !Task.isCancelled ? HTTPClientError.deadlineExceeded : error
        }
    }
}

/// Cancels tasks at their deadlines.
///
/// One task sleeps until the earliest of them: a timer for each request would cost two context switches.
private final class DeadlineScheduler: Sendable {
    static let shared = DeadlineScheduler()

    private struct State {
        var lastID: UInt64 = 0
        var deadlines: [UInt64: (end: ContinuousClock.Instant, cancel: @Sendable () -> Void)] = [:]

        /// The end of the sleep; nil if no task sleeps.
        var wake: ContinuousClock.Instant?
        var sleeper: Task<Void, Never>?

        /// Removes the expired deadlines; returns their closures.
        mutating func takeExpired() -> [@Sendable () -> Void] {
            let now = ContinuousClock.now
            let expired = deadlines.filter { $0.value.end <= now }
            for id in expired.keys { deadlines[id] = nil }
            return expired.values.map(\.cancel)
        }
    }

    /// The shortest sleep: each one ends with a search of all deadlines.
    private static let resolution = Duration.milliseconds(10)

    private let state = Mutex(State())

    func add(_ end: ContinuousClock.Instant, _ cancel: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            state.deadlines[state.lastID] = (end, cancel)
            if state.wake.map({ end < $0 }) ?? true {
                state.sleeper?.cancel()
                state.wake = end
                state.sleeper = Task.detached(priority: .high) { [self] in await sleep(until: end) }
            }
            return state.lastID
        }
    }

    /// Removes a deadline; returns false if it has expired.
    func remove(_ id: UInt64) -> Bool { state.withLock { $0.deadlines.removeValue(forKey: id) != nil } }

    private func sleep(until end: ContinuousClock.Instant) async {
        var end = end
        while true {
            // An earlier deadline has replaced this task.
            do { try await Task.sleep(until: end, clock: .continuous) } catch { return }
            let (expired, next) = state.withLock { state in
                let expired = state.takeExpired()
                guard state.wake == end else { return (expired, ContinuousClock.Instant?.none) }
                state.wake = state.deadlines.values.map(\.end).min().map { max($0, .now + Self.resolution) }
                return (expired, state.wake)
            }
            for cancel in expired { cancel() }
            guard let next else { return }
            end = next
        }
    }
}

/// The waits between the attempts of a call: a random part of a limit that doubles ("full jitter").
package struct Backoff: Sendable {
    package private(set) var attempts = 0

    package static let first = Duration.milliseconds(25)
    package static let longest = Duration.seconds(1)

    package init() {}

    /// The next wait.
    package mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        let limit = min(Self.longest, Self.first * (1 << min(attempts, 10)))
        attempts += 1
        return limit * Double.random(in: 0...1, using: &generator)
    }
}

extension Task where Failure == any Error {
    /// Waits for the value of a task that several callers share. A caller that is cancelled stops waiting; the task
    /// goes on.
    ///
    /// - Throws: The error of the task, or `CancellationError`.
    package func valueForWaiter() async throws -> Success {
        let (ended, end) = AsyncStream.makeStream(of: Result<Success, any Error>.self)
        Task<Void, Never> {
            end.yield(await result)
            end.finish()
        }
        for await result in ended { return try result.get() }
        throw Swift.CancellationError()
    }
}

/// A file of trusted certificates that cannot be read, or is not in PEM form.
private struct UnreadableCertificates: Error, CustomStringConvertible {
    let path: String
    let cause: any Error

    var description: String { "no certificates in \(path): \(cause)" }
}

extension TLSConfiguration {
    /// The settings of a client that trusts the certificates in a PEM file; with nil, those of the system.
    ///
    /// - Throws: An error that names the file, if it has no certificates.
    package static func client(trusting path: String?) throws -> TLSConfiguration {
        var tls = makeClientConfiguration()
        guard let path else { return tls }
        do {
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(path))
        } catch {
            throw UnreadableCertificates(path: path, cause: error)
        }
        return tls
    }
}
#endif
