import Synchronization

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

// MARK: Calls that wait for what is occupied

extension BlockingLane {
    /// Thrown by work that has changed nothing, because another program occupies a directory.
    package struct Occupied: Error {
        let directory: POSIXPath
        let cause: any Error
        let abandon: @Sendable () -> Void

        /// - Parameters:
        ///   - directory: What is occupied.
        ///   - cause: The error if the call waits for it until its deadline.
        ///   - abandon: Removes what the work keeps for the next attempt; called if there is none, because the call was
        ///     cancelled or its deadline has passed during this one.
        package init(_ directory: POSIXPath, _ cause: any Error, abandon: @escaping @Sendable () -> Void = {}) {
            self.directory = directory
            self.cause = cause
            self.abandon = abandon
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

    static let shortestPause: Duration = .milliseconds(1)
    private static let longestPause: Duration = .milliseconds(50)

    /// The calls that wait for a directory. There is a timer for them as long as the lane has this object.
    ///
    /// `@unchecked Sendable`: the variables are accessed with the lock of the lane.
    final class Occupation: @unchecked Sendable {
        let directory: POSIXPath
        var parked = FIFOQueue<Job>()
        /// The error of the last call that has found the directory occupied.
        var cause: any Error
        private var pause: Duration
        /// The call that the timer has tried last.
        private weak var tried: Job?

        init(of directory: POSIXPath, _ cause: any Error, pause: Duration) {
            self.directory = directory
            self.cause = cause
            self.pause = pause
        }

        /// The call to be tried now, and the time until the next; no call while the last one still waits for a thread.
        func next() -> (Job?, Duration) { (retried(), pause) }

        private func retried() -> Job? {
            pause = min(pause * 2, BlockingLane.longestPause)
            if tried?.isWaiting == true { return nil }
            tried = parked.popFirst()
            tried?.pause = pause
            return tried
        }

        /// The first call, after another has found the directory free.
        func follower() -> Job? {
            pause = BlockingLane.shortestPause
            let job = parked.popFirst()
            job?.pause = pause
            return job
        }
    }

    /// Lets a call wait that has found a directory occupied.
    func park(_ job: Job, _ occupied: Occupied) {
        let path = occupied.directory
        let (isParked, timer, deadline) = state.withLock { state -> (Bool, Duration?, ContinuousClock.Instant?) in
            // The call is past its deadline or cancelled.
            guard state.end(job), !job.cancellation.isCancelled else { return (false, nil, nil) }
            let (occupation, isNew) = state.occupation(of: occupied, pause: job.pause)
            // A call that was tried here goes back to the front.
            let isFirst = job.occupation?.directory == path
            job.ticket = isFirst ? occupation.parked.prepend(job) : occupation.parked.append(job)
            job.state = .parked
            job.occupation = occupation
            job.deadline = job.lastRetry
            job.cancellation.expectNothing()
            let timer = isNew ? job.pause : nil
            return (true, timer, state.watches(until: job.deadline))
        }
        guard isParked else {
            occupied.abandon()
            return job.answer(Job.cancelled)
        }
        if let timer { retry(path, after: timer) }
        if let deadline { watch(until: deadline) }
    }

    /// Tries the first of the calls that wait for a directory, at intervals, as long as there are any.
    private func retry(_ path: POSIXPath, after pause: Duration) {
        Task.detached { [weak self] in
            do { try await Task.sleep(for: pause) } catch {}
            guard let self else { return }
            let now = ContinuousClock.now
            let (tried, next) = state.withLock { state -> ((job: Job, start: Start)?, Duration?) in
                guard let occupation = state.occupied[path], occupation.parked.count > 0 else {
                    state.occupied[path] = nil
                    return (nil, nil)
                }
                let (job, next) = occupation.next()
                return (job.map { ($0, enqueue($0, in: &state, now)) }, next)
            }
            if let tried { carryOut(tried.start, of: tried.job) }
            if let next { retry(path, after: next) }
        }
    }

    /// Lets others follow a call that has found its directory free: two of them, each of which lets two more follow.
    func follow(_ job: Job) {
        let now = ContinuousClock.now
        let followers = state.withLock { state -> [(Job, Start)] in
            guard let path = job.occupation?.directory, let occupation = state.occupied[path] else { return [] }
            return (0..<2).compactMap { _ in
                guard let job = occupation.follower() else { return nil }
                return (job, enqueue(job, in: &state, now))
            }
        }
        for (job, start) in followers { carryOut(start, of: job) }
    }
}

// MARK: Deadlines

extension BlockingLane {
    /// Looks at the deadlines of all calls at this time.
    ///
    /// Most calls of a lane wait equally long at most, so a lane in use looks once in that time.
    func watch(until time: ContinuousClock.Instant) {
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
            for job in late { job.cancellation.cancel() }
            return (late.map { ($0, DeadlineExceeded(awaited: $0.awaited)) }, state.nextWatch)
        }
        for (job, error) in late { job.answer(error) }
        if let next { watch(until: next) }
    }

    /// The shortest time between two looks at the deadlines.
    private static let watchInterval: Duration = .milliseconds(5)
}

extension BlockingLane.State {
    /// The calls that wait for a directory, and whether there were none.
    fileprivate mutating func occupation(
        of found: BlockingLane.Occupied, pause: Duration
    ) -> (BlockingLane.Occupation, isNew: Bool) {
        if let known = occupied[found.directory] {
            known.cause = found.cause
            return (known, false)
        }
        let new = BlockingLane.Occupation(of: found.directory, found.cause, pause: pause)
        occupied[found.directory] = new
        return (new, true)
    }

    /// The calls whose deadlines have passed, which the lane no longer has, and the next deadline.
    mutating func late(at now: ContinuousClock.Instant) -> ([BlockingLane.Job], next: ContinuousClock.Instant?) {
        let isLate = { (job: BlockingLane.Job) in job.end.map { $0 <= now } ?? false }
        var late = waiting.removeAll(where: isLate)
        for job in late { job.state = .left }
        late += running.values.filter(isLate)
        for occupation in occupied.values { late += occupation.parked.removeAll(where: isLate) }
        for job in late { end(job) }
        let parked = occupied.values.flatMap { $0.parked.all.compactMap(\.end) }
        let next = (waiting.all.compactMap(\.end) + running.values.compactMap(\.end) + parked).min()
        return (late, next)
    }
}

/// A first-in, first-out queue from which any element can be removed.
///
/// Its memory is proportional to its length. Operations take O(1), amortised, unless stated otherwise.
package struct FIFOQueue<Element> {
    /// Identifies an element in the queue.
    package typealias Ticket = Int64

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

    /// Adds an element before all others.
    ///
    /// - Returns: The ticket with which ``remove(_:)`` finds it.
    package mutating func prepend(_ element: Element) -> Ticket {
        first -= 1
        elements[first] = element
        return first
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
