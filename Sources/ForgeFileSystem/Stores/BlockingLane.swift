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
    private let state = Mutex(State())

    package init(limit: Int = 32) {
        self.limit = max(limit, 1)
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
        let call = Call<Value, any Error>(within: limit?.bounded, cancellation) {
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

    /// Thrown by work that has changed nothing, because another program occupies a directory.
    package struct Occupied: Error {
        let directory: POSIXPath
        let cause: any Error

        package init(_ directory: POSIXPath, _ cause: any Error) {
            self.directory = directory
            self.cause = cause
        }
    }

    /// The error of a call that has waited until its deadline.
    package struct DeadlineExceeded: Error {
        package enum Awaited {
            case thread
            /// `body` has begun: it goes on, and its effect is unknown.
            case body
            /// What another program occupies, with the cause of the last ``Occupied``.
            case occupied(any Error)
        }

        package let awaited: Awaited
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
    /// `@unchecked Sendable`: the variables are accessed with the lock of the lane; the rest is constant.
    private class Job: @unchecked Sendable {
        let limit: Duration?
        let cancellation: Cancellation?
        /// Its place in the queue for threads, or among the calls that wait for `occupied`.
        var ticket: FIFOQueue<Job>.Ticket?
        var state = JobState.waiting
        /// The deadline of what it waits for now.
        var deadline: ContinuousClock.Instant?
        /// The end of the time in which it waits for what is occupied.
        var lastRetry: ContinuousClock.Instant?
        /// What the last attempt found occupied.
        var occupied: Occupied?
        /// The time between the last attempt and the next.
        var pause = BlockingLane.shortestPause

        init(within limit: Duration?, _ cancellation: Cancellation?) {
            self.limit = limit
            self.cancellation = cancellation
        }

        /// When the call is late, as far as it is known now.
        var end: ContinuousClock.Instant? {
            guard let deadline, let cancellation else { return deadline }
            return cancellation.extended(deadline)
        }

        var awaited: DeadlineExceeded.Awaited {
            switch (state, occupied) {
            case (.begun, _): .body
            case (.parked, let occupied?): .occupied(occupied.cause)
            default: .thread
            }
        }

        /// Runs the work; without an answer if that finds something occupied.
        func run() -> Occupied? { nil }

        func fail(_ error: any Error) {}
    }

    private enum JobState {
        case waiting, begun, parked
    }

    private final class Call<Value: Sendable, Failure: Error>: Job, @unchecked Sendable {
        private let continuation = Mutex<CheckedContinuation<Value, Failure>?>(nil)
        /// Nil once the call has a result. Only the thread that runs it accesses it after the initialiser.
        private var body: (@Sendable () -> Result<Value, Failure>)?

        init(
            within limit: Duration? = nil, _ cancellation: Cancellation? = nil,
            _ body: @escaping @Sendable () -> Result<Value, Failure>
        ) {
            self.body = body
            super.init(within: limit, cancellation)
        }

        /// Sets where the answer goes; before the call is submitted.
        func answers(_ continuation: CheckedContinuation<Value, Failure>) {
            self.continuation.withLock { $0 = continuation }
        }

        override func run() -> Occupied? {
            guard let result = body?() else { return nil }
            if case .failure(let error) = result, let occupied = error as? Occupied { return occupied }
            // The values that the call captures are released before its caller goes on.
            body = nil
            continuation.withLock { $0.take() }?.resume(with: result)
            return nil
        }

        override func fail(_ error: any Error) {
            guard let error = error as? Failure else { return }
            continuation.withLock { $0.take() }?.resume(throwing: error)
        }
    }

    private func submit(_ job: Job) {
        let now = ContinuousClock.now
        let start = state.withLock { enqueue(job, in: &$0, now) }
        carryOut(start, of: job)
    }

    /// What remains to be done without the lock after a call was put into the queue.
    private struct Start {
        enum Next {
            case wake(Worker), start, wait, refuse
        }

        let next: Next
        var deadline: ContinuousClock.Instant?
    }

    private func enqueue(_ job: Job, in state: inout State, _ now: ContinuousClock.Instant) -> Start {
        if job.cancellation?.isCancelled == true { return Start(next: .refuse) }
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

    private func carryOut(_ start: Start, of job: Job) {
        switch start.next {
        case .wake(let worker): worker.semaphore.signal()
        case .start: startThread()
        case .wait: break
        case .refuse: job.fail(CancellationError())
        }
        if let deadline = start.deadline { watch(until: deadline) }
    }

    /// Ends the wait of a cancelled call; one that has begun keeps its answer.
    private func leave(_ job: Job) {
        let isWaiting = state.withLock { $0.remove(job) }
        if isWaiting { job.fail(CancellationError()) }
    }
}

// MARK: Calls that wait for what is occupied

extension BlockingLane {
    private static let shortestPause: Duration = .milliseconds(1)
    private static let longestPause: Duration = .milliseconds(50)

    /// The calls that wait for a directory. There is a timer for them as long as the lane has this value.
    private struct Occupation {
        var parked = FIFOQueue<Job>()
        var pause: Duration

        mutating func add(_ job: Job, isFirst: Bool) -> FIFOQueue<Job>.Ticket {
            isFirst ? parked.prepend(job) : parked.append(job)
        }

        /// The first call, and the time until the next is to be tried; nil if there is none.
        mutating func retried() -> (Job, Duration)? {
            guard let job = parked.popFirst() else { return nil }
            pause = min(pause * 2, BlockingLane.longestPause)
            job.pause = pause
            return (job, pause)
        }

        /// The first call, after another has found the directory free.
        mutating func follower() -> Job? {
            pause = BlockingLane.shortestPause
            let job = parked.popFirst()
            job?.pause = pause
            return job
        }
    }

    /// Lets a call wait that has found a directory occupied.
    private func park(_ job: Job, _ occupied: Occupied) {
        let path = occupied.directory
        let (isParked, timer, deadline) = state.withLock { state -> (Bool, Duration?, ContinuousClock.Instant?) in
            // The call is past its deadline or cancelled.
            guard state.end(job), job.cancellation?.isCancelled != true else { return (false, nil, nil) }
            let wasTried = job.occupied?.directory == path
            job.state = .parked
            job.occupied = occupied
            job.deadline = job.lastRetry
            job.cancellation?.expectNothing()
            let timer = state.occupied[path] == nil ? job.pause : nil
            job.ticket = state.occupied[path, default: Occupation(pause: job.pause)].add(job, isFirst: wasTried)
            return (true, timer, state.watches(until: job.deadline))
        }
        guard isParked else { return job.fail(CancellationError()) }
        if let timer { retry(path, after: timer) }
        if let deadline { watch(until: deadline) }
    }

    /// Tries the first of the calls that wait for a directory, at intervals, as long as there are any.
    private func retry(_ path: POSIXPath, after pause: Duration) {
        Task.detached { [weak self] in
            do { try await Task.sleep(for: pause) } catch {}
            guard let self else { return }
            let now = ContinuousClock.now
            let tried = state.withLock { state -> (Job, Start, next: Duration)? in
                guard let (job, next) = state.occupied[path]?.retried() else {
                    state.occupied[path] = nil
                    return nil
                }
                return (job, enqueue(job, in: &state, now), next)
            }
            guard let (job, start, next) = tried else { return }
            carryOut(start, of: job)
            retry(path, after: next)
        }
    }

    /// Lets others follow a call that has found its directory free: two of them, each of which lets two more follow.
    private func follow(_ job: Job) {
        let now = ContinuousClock.now
        let followers = state.withLock { state -> [(Job, Start)] in
            guard let path = job.occupied?.directory else { return [] }
            return (0..<2).compactMap { _ in
                guard let job = state.occupied[path]?.follower() else { return nil }
                return (job, enqueue(job, in: &state, now))
            }
        }
        for (job, start) in followers { carryOut(start, of: job) }
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

        /// Removes a call that waits; false if it does not.
        mutating func remove(_ job: Job) -> Bool {
            guard let ticket = job.ticket else { return false }
            switch job.state {
            case .begun: return false
            case .waiting: return waiting.remove(ticket) != nil
            case .parked:
                guard let path = job.occupied?.directory else { return false }
                return occupied[path]?.parked.remove(ticket) != nil
            }
        }

        /// The calls whose deadlines have passed, which the lane no longer has, and the next deadline.
        mutating func late(at now: ContinuousClock.Instant) -> ([Job], next: ContinuousClock.Instant?) {
            let isLate = { (job: Job) in job.end.map { $0 <= now } ?? false }
            var late = waiting.removeAll(where: isLate) + running.values.filter(isLate)
            for path in occupied.keys { late += occupied[path]?.parked.removeAll(where: isLate) ?? [] }
            for job in late { end(job) }
            let parked = occupied.values.flatMap { $0.parked.all.compactMap(\.end) }
            let next = (waiting.all.compactMap(\.end) + running.values.compactMap(\.end) + parked).min()
            return (late, next)
        }

        /// The time if the deadlines must be looked at then, and are not yet to be looked at earlier.
        mutating func watches(until time: ContinuousClock.Instant?) -> ContinuousClock.Instant? {
            guard let time else { return nil }
            if let nextWatch, nextWatch <= time { return nil }
            nextWatch = time
            return time
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
        if job.limit != nil { state.withLock { _ = $0.end(job) } }
        if job.occupied != nil { follow(job) }
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
        let (late, next) = state.withLock { state -> ([(Job, DeadlineExceeded)], ContinuousClock.Instant?) in
            // A call with an earlier deadline has rescheduled this check.
            guard state.nextWatch == time else { return ([], nil) }
            let (late, next) = state.late(at: now)
            // Many deadlines may follow shortly after one another, and each look takes O(calls).
            state.nextWatch = next.map { max($0, now + Self.watchInterval) }
            for job in late { job.cancellation?.cancel() }
            return (late.map { ($0, DeadlineExceeded(awaited: $0.awaited)) }, state.nextWatch)
        }
        for (job, error) in late { job.fail(error) }
        if let next { watch(until: next) }
    }

    /// The shortest time between two looks at the deadlines.
    private static let watchInterval: Duration = .milliseconds(5)
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
