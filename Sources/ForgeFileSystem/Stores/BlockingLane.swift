import Dispatch
import Synchronization

/// Runs blocking work on threads of its own: neither those of Swift concurrency nor Dispatch's, from which Swift's are
/// taken on some platforms.
///
/// Every root of a store has a lane, so a device that does not answer takes no thread from calls to another. A lane has
/// at most ``limit`` threads, all lanes together at most ``processLimit`` and the first one of each. A thread without
/// work ends after five seconds. Calls that wait for a thread are suspended tasks, served in their order; a cancelled
/// one, and one past its deadline, leaves the queue at once, in O(1).
package final class BlockingLane: Sendable {
    /// For work that belongs to no root, such as that on temporary files of this process.
    package static let general = BlockingLane()

    /// The maximum number of threads of all lanes; the first thread of a lane is started regardless.
    package static let processLimit = 128

    /// The time after which a thread without work ends.
    private static let idleTime = DispatchTimeInterval.seconds(5)

    /// The maximum number of threads: enough for the calls of many tasks to share the device's flushes.
    package let limit: Int
    private let state = Mutex(State())

    package init(limit: Int = 32) {
        self.limit = max(limit, 1)
    }

    /// The number of threads now.
    package var threadCount: Int { state.withLock { $0.threadCount } }

    /// The number of calls that wait for a thread.
    package var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Runs `body` on a thread of the lane, and returns its result.
    ///
    /// Neither cancellation nor a deadline ends it. `body` must not wait for other work of the lane.
    nonisolated(nonsending) package func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let call = Call<Result<Value, Failure>, Never> {
            do throws(Failure) {
                return .success(.success(try body()))
            } catch {
                return .success(.failure(error))
            }
        }
        let outcome = await withCheckedContinuation { continuation in
            call.answers(continuation)
            submit(call)
        }
        return try outcome.get()
    }

    /// Runs `body` on a thread of the lane, unless the task is cancelled or the deadline passes before.
    ///
    /// `body` may check for cancellation where it has not changed anything. It continues after the deadline, and its
    /// result is dropped; its cancellation is signalled to it then.
    ///
    /// - Parameters:
    ///   - deadline: When to stop waiting for `body`, or for a thread; nil for never.
    ///   - body: The work.
    /// - Returns: The result of `body`.
    /// - Throws: `CancellationError`, ``DeadlineExceeded``, or the error of `body`.
    nonisolated(nonsending) package func run<Value: Sendable>(
        until deadline: ContinuousClock.Instant?, _ body: @escaping @Sendable (Cancellation) throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let cancellation = Cancellation()
        let call = Call<Value, any Error>(deadline, cancellation) {
            Result {
                try cancellation.check()
                return try body(cancellation)
            }
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                call.answers(continuation)
                submit(call)
            }
        } onCancel: {
            // A call that is submitted after this is refused.
            cancellation.cancel()
            leave(call)
        }
    }

    /// The error of a call that has waited until its deadline.
    package struct DeadlineExceeded: Error {
        /// Whether `body` has begun: then it goes on, and its effect is unknown.
        package let hasBegun: Bool
    }
}

// MARK: Lanes of roots

extension BlockingLane {
    private struct WeakLane {
        weak var lane: BlockingLane?
    }

    private static let lanes = Mutex<[POSIXPath: WeakLane]>([:])

    /// The lane of a directory of the system, which all stores of this process in it share.
    package static func lane(of root: POSIXPath) -> BlockingLane {
        lanes.withLock { lanes in
            if let lane = lanes[root]?.lane { return lane }
            // A new lane is rare beside the calls on it.
            lanes = lanes.filter { $0.value.lane != nil }
            let lane = BlockingLane()
            lanes[root] = WeakLane(lane: lane)
            return lane
        }
    }
}

// MARK: Calls

extension BlockingLane {
    /// A call, which has one answer: its result, its cancellation or its deadline, whichever comes first.
    ///
    /// `@unchecked Sendable`: `ticket` and `hasBegun` are accessed with the lock of the lane; the rest is constant.
    private class Job: @unchecked Sendable {
        let deadline: ContinuousClock.Instant?
        let cancellation: Cancellation?
        var ticket: FIFOQueue<Job>.Ticket?
        var hasBegun = false

        init(_ deadline: ContinuousClock.Instant?, _ cancellation: Cancellation?) {
            self.deadline = deadline
            self.cancellation = cancellation
        }

        /// When the call is late, as far as it is known now.
        var end: ContinuousClock.Instant? {
            guard let deadline, let cancellation else { return deadline }
            return cancellation.extended(deadline)
        }

        func run() {}

        func fail(_ error: any Error) {}
    }

    private final class Call<Value: Sendable, Failure: Error>: Job, @unchecked Sendable {
        private let continuation = Mutex<CheckedContinuation<Value, Failure>?>(nil)
        /// Nil once the call has begun. Only the thread that runs it accesses it after the initialiser.
        private var body: (@Sendable () -> Result<Value, Failure>)?

        init(
            _ deadline: ContinuousClock.Instant? = nil, _ cancellation: Cancellation? = nil,
            _ body: @escaping @Sendable () -> Result<Value, Failure>
        ) {
            self.body = body
            super.init(deadline, cancellation)
        }

        /// Sets where the answer goes; before the call is submitted.
        func answers(_ continuation: CheckedContinuation<Value, Failure>) {
            self.continuation.withLock { $0 = continuation }
        }

        override func run() {
            guard let result = body.take()?() else { return }
            // The values that the call captures are released before its caller goes on.
            continuation.withLock { $0.take() }?.resume(with: result)
        }

        override func fail(_ error: any Error) {
            guard let error = error as? Failure else { return }
            continuation.withLock { $0.take() }?.resume(throwing: error)
        }
    }

    private func submit(_ job: Job) {
        enum Next {
            case wake(Worker), start, wait, refuse
        }
        let (next, watches) = state.withLock { state -> (Next, Bool) in
            if job.cancellation?.isCancelled == true { return (.refuse, false) }
            let watches = job.deadline.map { state.watches(until: $0) } ?? false
            if let worker = state.idle.popLast() {
                state.begin(job)
                worker.job = job
                return (.wake(worker), watches)
            }
            job.ticket = state.waiting.append(job)
            return (reserveThread(&state) ? .start : .wait, watches)
        }
        switch next {
        case .wake(let worker): worker.semaphore.signal()
        case .start: startThread()
        case .wait: break
        case .refuse: return job.fail(CancellationError())
        }
        if watches, let deadline = job.deadline { watch(until: deadline) }
    }

    /// Ends the wait of a cancelled call; one that has begun keeps its answer.
    private func leave(_ job: Job) {
        let isWaiting = state.withLock { state in
            guard let ticket = job.ticket else { return false }
            return state.waiting.remove(ticket) != nil
        }
        if isWaiting { job.fail(CancellationError()) }
    }
}

// MARK: Threads

extension BlockingLane {
    private struct State {
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
        /// When the deadlines are looked at next.
        var nextWatch: ContinuousClock.Instant?

        /// Whether a call waits that no starting thread is for.
        var needsThread: Bool { waiting.count > startingCount }

        mutating func begin(_ job: Job) {
            job.hasBegun = true
            if job.deadline != nil { running[ObjectIdentifier(job)] = job }
        }

        mutating func end(_ job: Job) {
            if job.deadline != nil { running[ObjectIdentifier(job)] = nil }
        }

        /// Whether the deadlines must be looked at then, and are not yet to be looked at earlier.
        mutating func watches(until time: ContinuousClock.Instant) -> Bool {
            if let nextWatch, nextWatch <= time { return false }
            nextWatch = time
            return true
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
    private final class Worker: @unchecked Sendable {
        let lane: BlockingLane
        let semaphore = DispatchSemaphore(value: 0)
        /// The next call, set before the semaphore is signalled.
        var job: Job?

        init(_ lane: BlockingLane) { self.lane = lane }

        func run() {
            lane.state.withLock { $0.startingCount -= 1 }
            while let job = lane.nextJob(for: self) {
                job.run()
                lane.end(job)
            }
        }
    }

    /// Starts a thread that is counted. If the system has none, that is tried again while calls wait.
    @discardableResult
    private func startThread() -> Bool {
        let worker = Worker(self)
        if ForgeFileSystem.startThread({ worker.run() }) { return true }
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
        if job.deadline != nil { state.withLock { $0.end(job) } }
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

// MARK: Deadlines

extension BlockingLane {
    /// Looks at the deadlines of all calls at this time.
    ///
    /// Most calls of a lane wait equally long at most, so a lane in use looks once in that time.
    private func watch(until time: ContinuousClock.Instant) {
        Task.detached { [weak self] in
            do { try await Task.sleep(until: time, clock: .continuous) } catch {}
            self?.answerLateCalls(at: time)
        }
    }

    private func answerLateCalls(at time: ContinuousClock.Instant) {
        let now = ContinuousClock.now
        let (late, next) = state.withLock { state -> ([Job], ContinuousClock.Instant?) in
            // A call with an earlier deadline has rescheduled this check.
            guard state.nextWatch == time else { return ([], nil) }
            state.nextWatch = nil
            let isLate = { (job: Job) in job.end.map { $0 <= now } ?? false }
            let late = state.waiting.removeAll(where: isLate) + state.running.values.filter(isLate)
            for job in late { state.end(job) }
            let next = (state.waiting.all.compactMap(\.end) + state.running.values.compactMap(\.end)).min()
            state.nextWatch = next
            return (late, next)
        }
        for job in late {
            job.cancellation?.cancel()
            job.fail(DeadlineExceeded(hasBegun: job.hasBegun))
        }
        if let next { watch(until: next) }
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

/// A first-in, first-out queue from which any element can be removed.
///
/// Its memory is proportional to its length. Operations take O(1), amortised, unless stated otherwise.
package struct FIFOQueue<Element> {
    /// Identifies an element in the queue.
    package typealias Ticket = UInt64

    private var elements: [Ticket: Element] = [:]
    /// No element has a smaller ticket.
    private var first: Ticket = 0
    private var next: Ticket = 0

    package init() {}

    /// The number of elements.
    package var count: Int { elements.count }

    /// Adds an element at the end.
    ///
    /// - Returns: The ticket with which ``remove(_:)`` finds it.
    package mutating func append(_ element: Element) -> Ticket {
        defer { next += 1 }
        elements[next] = element
        return next
    }

    /// Removes the first element; nil if there is none.
    package mutating func popFirst() -> Element? {
        while first < next {
            defer { first += 1 }
            if let element = elements.removeValue(forKey: first) { return element }
        }
        return nil
    }

    /// Removes an element; nil if it is no longer in the queue.
    @discardableResult
    package mutating func remove(_ ticket: Ticket) -> Element? { elements.removeValue(forKey: ticket) }

    /// Removes and returns the elements that satisfy a condition, in any order. Takes O(length).
    package mutating func removeAll(where isRemoved: (Element) -> Bool) -> [Element] {
        let removed = elements.filter { isRemoved($0.value) }
        for ticket in removed.keys { elements[ticket] = nil }
        return Array(removed.values)
    }

    /// The elements, in any order.
    package var all: some Collection<Element> { elements.values }
}
