import Dispatch
import Synchronization

/// Runs blocking work on threads of its own: neither those of Swift concurrency nor Dispatch's, from which Swift's are
/// taken on some platforms.
///
/// Every root of a store has a lane, so a device that does not answer takes no thread from calls to another. A lane has
/// at most ``limit`` threads, all lanes together at most ``processLimit`` and the first one of each. A thread without
/// work ends after five seconds. Calls that wait for a thread, or for what another program occupies, are suspended
/// tasks, served in their order; a cancelled one leaves the queue at once, in O(1).
package final class BlockingLane: Sendable {
    /// For work that belongs to no root, such as that on temporary files of this process.
    package static let general = BlockingLane()

    /// The maximum number of threads of all lanes; the first thread of a lane is started regardless.
    package static let processLimit = 128

    /// The time after which a thread without work ends.
    private static let idleTime = DispatchTimeInterval.seconds(5)

    /// The maximum number of threads: enough for the calls of many tasks to share the device's flushes.
    package let limit: Int
    let state = Mutex(State())

    private let start: @Sendable (_ body: @escaping @Sendable () -> Void) -> Bool

    /// Creates a lane.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of threads.
    ///   - start: Starts a thread; false if the system has none.
    package init(
        limit: Int = 32,
        startingWith start: @escaping @Sendable (_ body: @escaping @Sendable () -> Void) -> Bool = ForgeFileSystem
            .startThread
    ) {
        self.limit = max(limit, 1)
        self.start = start
    }

    /// The number of threads now.
    package var threadCount: Int { state.withLock { $0.threadCount } }

    /// The number of calls that wait for a thread.
    package var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// The number of calls that wait for what another program occupies, and are not tried now.
    package var parkedCount: Int { state.withLock { $0.occupied.values.reduce(0) { $0 + $1.parked.count } } }

    /// Runs `body` on a thread of the lane, and returns its result.
    ///
    /// Neither cancellation nor a deadline ends it. `body` must not wait for other work of the lane.
    nonisolated(nonsending) package func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let call = Call<Result<Value, Failure>> { _ in
            do throws(Failure) {
                return .success(try body())
            } catch {
                return .failure(error)
            }
        }
        _ = await withCheckedContinuation { continuation in
            call.answers(continuation)
            submit(call)
        }
        // Only cancellation and deadlines end a call without a result.
        return try call.takeResult().get()
    }

    /// Runs `body` on a thread of the lane, unless the task is cancelled or the time is up before.
    ///
    /// `body` may check for cancellation where it has not changed anything. It continues after its deadline, and its
    /// result is dropped; its cancellation is signalled to it then.
    ///
    /// If `body` throws ``Occupied``, the call waits without a thread, and `body` runs again later. Of the calls that
    /// wait for the same directory only the first is tried, by a timer; after it has found the directory free, the
    /// others follow in their order.
    ///
    /// - Parameters:
    ///   - limit: How long the call waits for a thread and for `body`, counted from the beginning of each attempt, and
    ///     for what is occupied, counted from the beginning of the call; nil for any time.
    ///   - body: The work.
    /// - Returns: The result of `body`.
    /// - Throws: `CancellationError`, ``DeadlineExceeded``, or the error of `body`.
    nonisolated(nonsending) package func run<Value: Sendable>(
        within limit: Duration?, _ body: @escaping @Sendable (Cancellation) throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let cancellation = Cancellation()
        let call = Call(within: limit?.bounded, cancellation, body)
        let error = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                call.answers(continuation)
                submit(call)
            }
        } onCancel: {
            // A call that is submitted after this is refused.
            cancellation.cancel()
            leave(call)
        }
        if let error { throw error }
        return call.takeResult()
    }

}

// MARK: Calls

extension BlockingLane {
    /// A call, which has one answer: its result, its cancellation or its deadline, whichever comes first.
    ///
    /// `@unchecked Sendable`: the variables are accessed with the lock of the lane; the rest is constant.
    class Job: @unchecked Sendable {
        let limit: Duration?
        let cancellation: Cancellation
        /// Its place in the queue for threads, or among the calls of `occupation`.
        var ticket: FIFOQueue<Job>.Ticket?
        var state = JobState.waiting
        /// The deadline of what it waits for now.
        var deadline: ContinuousClock.Instant?
        /// The end of the time in which it waits for what is occupied.
        var lastRetry: ContinuousClock.Instant?
        /// The calls that wait for the directory that the last attempt has found occupied.
        var occupation: Occupation?
        /// The time between the last attempt and the next.
        var pause = BlockingLane.shortestPause
        /// One object for all calls: the threads of many cancelled ones do not meet in the allocator.
        static let cancelled: any Error = CancellationError()
        /// Where the answer goes: an error, or nil if there is a result.
        private let continuation = Mutex<CheckedContinuation<(any Error)?, Never>?>(nil)

        init(within limit: Duration?, _ cancellation: Cancellation) {
            self.limit = limit
            self.cancellation = cancellation
        }

        var isWaiting: Bool { if case .waiting = state { true } else { false } }

        /// When the call is late, as far as it is known now.
        var end: ContinuousClock.Instant? {
            guard let deadline else { return nil }
            return cancellation.extended(deadline)
        }

        var awaited: DeadlineExceeded.Awaited {
            switch (state, occupation) {
            case (.begun, _): .body
            case (.parked, let occupation?): .occupied(occupation.cause)
            default: .thread
            }
        }

        /// Runs the work; without an answer if that finds something occupied.
        func run() -> Occupied? { nil }

        /// Sets where the answer goes; before the call is submitted.
        func answers(_ continuation: CheckedContinuation<(any Error)?, Never>) {
            self.continuation.withLock { $0 = continuation }
        }

        /// Ends the call, unless it has ended.
        func answer(_ error: (any Error)?) {
            continuation.withLock { $0.take() }?.resume(returning: error)
        }
    }

    enum JobState {
        case waiting, begun, parked
        /// Cancelled or past its deadline before it has begun.
        case left
    }

    /// The work of a call, and its result.
    ///
    /// `@unchecked Sendable`: only the thread that runs it accesses the variables, until its answer has ended the call.
    private final class Call<Value: Sendable>: Job, @unchecked Sendable {
        /// Nil once the call has an answer.
        private var body: (@Sendable (Cancellation) throws -> Value)?
        private var result: Value?

        init(
            within limit: Duration? = nil, _ cancellation: Cancellation = Cancellation(),
            _ body: @escaping @Sendable (Cancellation) throws -> Value
        ) {
            self.body = body
            super.init(within: limit, cancellation)
        }

        override func run() -> Occupied? {
            guard !cancellation.isCancelled else {
                body = nil
                answer(Self.cancelled)
                return nil
            }
            var failure: (any Error)?
            do {
                guard let value = try body?(cancellation) else { return nil }
                result = value
            } catch {
                if let occupied = error as? Occupied { return occupied }
                failure = error
            }
            // The values that the call captures are released before its caller goes on.
            body = nil
            answer(failure)
            return nil
        }

        /// The result of a call that has ended without an error.
        func takeResult() -> Value {
            guard let value = result.take() else { preconditionFailure("the answer came before the result") }
            return value
        }
    }

    func submit(_ job: Job) {
        let now = ContinuousClock.now
        let start = state.withLock { enqueue(job, in: &$0, now) }
        carryOut(start, of: job)
    }

    /// What remains to be done without the lock after a call was put into the queue.
    struct Start {
        enum Next {
            case wake(Worker), start, wait, refuse
        }

        let next: Next
        var deadline: ContinuousClock.Instant?
    }

    func enqueue(_ job: Job, in state: inout State, _ now: ContinuousClock.Instant) -> Start {
        if job.cancellation.isCancelled {
            job.state = .left
            return Start(next: .refuse)
        }
        job.deadline = job.limit.map { now + $0 }
        job.lastRetry = job.lastRetry ?? job.deadline
        let deadline = state.watches(until: job.deadline)
        if let worker = state.idle.popLast() {
            state.begin(job)
            worker.job = job
            return Start(next: .wake(worker), deadline: deadline)
        }
        job.state = .waiting
        job.ticket = state.waiting.append(job)
        return Start(next: reserveThread(&state) ? .start : .wait, deadline: deadline)
    }

    func carryOut(_ start: Start, of job: Job) {
        switch start.next {
        case .wake(let worker): worker.semaphore.signal()
        case .start: startThread()
        case .wait: break
        case .refuse: job.answer(Job.cancelled)
        }
        if let deadline = start.deadline { watch(until: deadline) }
    }

    /// Ends the wait of a cancelled call; one that has begun keeps its answer.
    private func leave(_ job: Job) {
        let isWaiting = state.withLock { $0.remove(job) }
        if isWaiting { job.answer(Job.cancelled) }
    }
}

// MARK: Threads

extension BlockingLane {
    struct State {
        var waiting = FIFOQueue<Job>()
        /// The threads without work; the one that has worked last is the next to work.
        var idle: [Worker] = []
        var threadCount = 0
        /// The threads that have not looked for a call yet.
        var startingCount = 0
        /// Whether the system had no thread, and is asked again soon.
        var isRetrying = false
        /// Whether the lane is in the list of those that wait for a thread of the process.
        var isStarved = false
        /// The calls with deadlines that have begun.
        var running: [ObjectIdentifier: Job] = [:]
        /// The calls that wait for directories.
        var occupied: [POSIXPath: Occupation] = [:]
        /// When the deadlines are looked at next.
        var nextWatch: ContinuousClock.Instant?

        /// Whether a call waits that no starting thread is for.
        var needsThread: Bool { waiting.count > startingCount }

        mutating func begin(_ job: Job) {
            job.state = .begun
            if job.limit != nil { running[ObjectIdentifier(job)] = job }
        }

        /// Ends an attempt; false if its deadline has ended it before.
        @discardableResult
        mutating func end(_ job: Job) -> Bool {
            job.limit == nil || running.removeValue(forKey: ObjectIdentifier(job)) != nil
        }

        /// The time if the deadlines must be looked at then, and are not yet to be looked at earlier.
        mutating func watches(until time: ContinuousClock.Instant?) -> ContinuousClock.Instant? {
            guard let time else { return nil }
            if let nextWatch, nextWatch <= time { return nil }
            nextWatch = time
            return time
        }

        /// Removes a call that waits; false if it does not.
        mutating func remove(_ job: Job) -> Bool {
            guard let ticket = job.ticket else { return false }
            switch job.state {
            case .begun, .left: return false
            case .waiting:
                job.state = .left
                return waiting.remove(ticket) != nil
            case .parked:
                job.state = .left
                return job.occupation?.parked.remove(ticket) != nil
            }
        }
    }

    /// The threads of all lanes but the first one of each, and the lanes with calls that wait for another one.
    private struct AllThreads {
        var count = 0
        var starved: [BlockingLane] = []
    }

    private static let allThreads = Mutex(AllThreads())

    /// Counts a new thread of the lane; false if there are enough of the lane, or of the process until one ends.
    private func reserveThread(_ state: inout State) -> Bool {
        guard state.threadCount < limit else { return false }
        if state.threadCount > 0 {
            let isReserved = Self.allThreads.withLock { all in
                guard all.count >= Self.processLimit else {
                    all.count += 1
                    return true
                }
                if !state.isStarved { all.starved.append(self) }
                return false
            }
            guard isReserved else {
                state.isStarved = true
                return false
            }
        }
        state.threadCount += 1
        state.startingCount += 1
        return true
    }

    /// Starts the threads that the lane needs, as far as it and the process may have more.
    private func startMissingThreads() {
        while state.withLock({ $0.needsThread && reserveThread(&$0) }) {
            guard startThread() else { return }
        }
    }

    /// Releases a thread of a lane that has so many others; lanes whose calls wait get threads instead.
    private static func releaseThread(besides others: Int) {
        guard others > 0 else { return }
        allThreads.withLock { $0.count -= 1 }
        // A lane that needs more threads than there are is in the list again.
        while let next = allThreads.withLock({ all -> BlockingLane? in
            all.count < processLimit && !all.starved.isEmpty ? all.starved.removeFirst() : nil
        }) {
            next.state.withLock { $0.isStarved = false }
            next.startMissingThreads()
        }
    }

    /// A thread of a lane.
    ///
    /// `@unchecked Sendable`: `job` is accessed with the lock of the lane; the rest is constant.
    final class Worker: @unchecked Sendable {
        let lane: BlockingLane
        let semaphore = DispatchSemaphore(value: 0)
        /// The next call, set before the semaphore is signalled.
        var job: Job?

        init(_ lane: BlockingLane) { self.lane = lane }

        func run() {
            lane.state.withLock { $0.startingCount -= 1 }
            while let job = lane.nextJob(for: self) {
                if let occupied = job.run() {
                    lane.park(job, occupied)
                } else {
                    lane.end(job)
                }
            }
        }
    }

    /// Starts a thread that is counted. If the system has none, that is tried again while calls wait.
    @discardableResult
    private func startThread() -> Bool {
        let worker = Worker(self)
        if start({ worker.run() }) { return true }
        let (others, isFirst) = state.withLock { state in
            state.threadCount -= 1
            state.startingCount -= 1
            defer { state.isRetrying = true }
            return (state.threadCount, !state.isRetrying)
        }
        Self.releaseThread(besides: others)
        if isFirst {
            Task.detached {
                do { try await Task.sleep(for: .milliseconds(10)) } catch {}
                self.state.withLock { $0.isRetrying = false }
                self.startMissingThreads()
            }
        }
        return false
    }

    private func end(_ job: Job) {
        if job.limit != nil { state.withLock { _ = $0.end(job) } }
        if job.occupation != nil { follow(job) }
    }

    /// The next call for a thread; nil after it had none for a while.
    private func nextJob(for worker: Worker) -> Job? {
        let job = state.withLock { state -> Job? in
            if let job = state.waiting.popFirst() {
                state.begin(job)
                return job
            }
            state.idle.append(worker)
            return nil
        }
        if let job { return job }
        if worker.semaphore.wait(timeout: .now() + Self.idleTime) == .timedOut {
            let others = state.withLock { state -> Int? in
                guard worker.job == nil else { return nil }
                state.idle.removeAll { $0 === worker }
                state.threadCount -= 1
                return state.threadCount
            }
            if let others {
                Self.releaseThread(besides: others)
                return nil
            }
            worker.semaphore.wait()
        }
        return state.withLock { _ in worker.job.take() }
    }
}

// MARK: Cancellation

/// The cancellation of a call, and how long it may take, shared with its work on another thread.
package final class Cancellation: Sendable {
    private let flag = Atomic(false)
    /// By how many seconds the deadline of work that has begun is later; negative for none.
    private let extra = Atomic<Int64>(0)

    package init() {}

    package var isCancelled: Bool { flag.load(ordering: .relaxed) }

    package func cancel() {
        flag.store(true, ordering: .relaxed)
    }

    /// Throws if the task was cancelled or its deadline has passed, on whatever thread its work runs.
    package func check() throws {
        if isCancelled || Task.isCancelled { throw CancellationError() }
    }

    /// Makes the deadline later, as far as the work has to read or write so many bytes: a second for each MiB.
    package func expectWork(ofSize sizeInBytes: Int64) {
        extra.add(max(sizeInBytes, 0) >> 20, ordering: .relaxed)
    }

    /// Takes back what was expected of an attempt that has ended.
    func expectNothing() {
        extra.store(0, ordering: .relaxed)
    }

    /// Removes the deadline, for work that takes long without waiting, such as that on a whole tree.
    package func expectLongWork() {
        extra.store(.min, ordering: .relaxed)
    }

    /// When work that was to end by `deadline` is late; nil for never.
    func extended(_ deadline: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        let seconds = extra.load(ordering: .relaxed)
        return seconds < 0 ? nil : deadline + Duration.seconds(seconds).bounded
    }
}
