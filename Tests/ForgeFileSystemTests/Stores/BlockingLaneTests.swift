import Dispatch
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeFileSystem

@Suite("A lane of threads for blocking work")
struct BlockingLaneTests {
    @Test("returns the result or the error of a call")
    func run() async throws {
        let lane = BlockingLane()
        #expect(await lane.run { 7 } == 7)
        await #expect(throws: FileSystemError.self) {
            try await lane.run { () throws(FileSystemError) -> Int in throw FileSystemError(.read, .ioError) }
        }
        #expect(try await lane.run(within: nil) { _ in 7 } == 7)
        await #expect(throws: FileSystemError.self) {
            try await lane.run(within: .seconds(60)) { _ in throw FileSystemError(.read, .ioError) }
        }
    }

    @Test("every one of thousands of calls returns its result, and no more threads work than the limit")
    func manyCalls() async {
        let lane = BlockingLane(limit: 8)
        let running = RunningCount()
        let results = await withTaskGroup(of: Int.self) { group in
            for number in 0..<3000 {
                group.addTask {
                    await lane.run {
                        running.change(by: 1)
                        usleep(100)
                        running.change(by: -1)
                        return number
                    }
                }
            }
            return await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(results == Set(0..<3000))
        #expect((1...8).contains(running.maximum))
        #expect(lane.threadCount <= 8)
    }

    @Test("a stuck call delays neither other calls of its lane nor those of another lane")
    func stuckCalls() async {
        let gate = DispatchSemaphore(value: 0)
        let stuck = BlockingLane(limit: 2)
        let waiting = (0..<2).map { _ in Task { await stuck.run { gate.wait() } } }
        #expect(await BlockingLane(limit: 1).run { 1 } == 1)
        let other = Task { await stuck.run { 2 } }
        gate.signal()
        #expect(await other.value == 2)
        gate.signal()
        for task in waiting { await task.value }
    }

    @Test("a lane has a thread of its own when the threads of all lanes are used up")
    func processLimit() async {
        let gate = DispatchSemaphore(value: 0)
        let lanes = (0..<2).map { _ in BlockingLane(limit: BlockingLane.processLimit) }
        let waiting = lanes.flatMap { lane in
            (0..<BlockingLane.processLimit).map { _ in Task { await lane.run { gate.wait() } } }
        }
        #expect(await BlockingLane().run { 1 } == 1)
        #expect(lanes.reduce(0) { $0 + $1.threadCount } <= BlockingLane.processLimit + lanes.count)
        for _ in waiting { gate.signal() }
        for task in waiting { await task.value }
    }

    @Test("each call that waits for a thread of the process gets one when threads of another lane end")
    func starvedLane() async {
        let (gate, stuck) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let greedy = BlockingLane(limit: BlockingLane.processLimit + 1)
        let holders = (0...BlockingLane.processLimit).map { _ in Task { await greedy.run { gate.wait() } } }
        await waitUntil { greedy.waitingCount + greedy.threadCount == holders.count }
        let starved = BlockingLane()
        let calls = (0..<4).map { _ in Task { await starved.run { stuck.wait() } } }
        await waitUntil { starved.threadCount + starved.waitingCount == calls.count }
        for _ in holders { gate.signal() }
        for task in holders { await task.value }
        // The threads of the other lane end when they have been idle for a while.
        await waitUntil { starved.waitingCount == 0 }
        for _ in calls { stuck.signal() }
        for call in calls { await call.value }
    }

    @Test(
        "a call that is cancelled before it is in the queue is answered, and takes no thread",
        .timeLimit(.minutes(10)))
    func cancelledBefore() async {
        let lane = BlockingLane()
        let cancellation = Cancellation()
        cancellation.cancel()
        let job = BlockingLane.Job(within: .seconds(60), cancellation)
        let answer: (any Error)? = await withCheckedContinuation { continuation in
            job.answers(continuation)
            lane.submit(job)
        }
        #expect(answer is CancellationError && job.state == .left)
        #expect(lane.threadCount == 0 && lane.waitingCount == 0)
    }

    @Test("a cancelled call leaves the queue at once")
    func cancellation() async throws {
        let gate = DispatchSemaphore(value: 0)
        let lane = BlockingLane(limit: 1)
        let stuck = Task { await lane.run { gate.wait() } }
        await waitUntil { lane.threadCount == 1 && lane.waitingCount == 0 }
        let calls = (0..<16_000).map { _ in Task { try await lane.run(within: nil) { _ in } } }
        await waitUntil { lane.waitingCount == calls.count }
        for call in calls { call.cancel() }
        var cancelledCount = 0
        for call in calls {
            do { try await call.value } catch is CancellationError { cancelledCount += 1 }
        }
        #expect(cancelledCount == calls.count)
        #expect(lane.waitingCount == 0)
        gate.signal()
        await stuck.value
    }

    @Test("a call past its deadline throws, whether it waits for a thread or has begun")
    func deadlines() async throws {
        let gate = DispatchSemaphore(value: 0)
        let lane = BlockingLane(limit: 1)
        let cancelled = Mutex<Cancellation?>(nil)
        let begun = Task {
            try await lane.run(within: .milliseconds(200)) { cancellation in
                cancelled.withLock { $0 = cancellation }
                gate.wait()
            }
        }
        await waitUntil { cancelled.withLock { $0 != nil } }
        let first = await #expect(throws: BlockingLane.DeadlineExceeded.self) {
            try await lane.run(within: .milliseconds(10)) { _ in Issue.record("ran after its deadline") }
        }
        guard case .thread = first?.awaited else { throw try #require(first) }
        let second = await #expect(throws: BlockingLane.DeadlineExceeded.self) { try await begun.value }
        guard case .body = second?.awaited else { throw try #require(second) }
        #expect(cancelled.withLock { $0?.isCancelled } == true)
        gate.signal()
        #expect(try await lane.run(within: .seconds(60)) { _ in 1 } == 1)
    }

    @Test("a call whose deadline passes while it finds a directory occupied abandons what it keeps")
    func abandoned() async throws {
        let lane = BlockingLane(limit: 1)
        let isAbandoned = Atomic(false)
        let gate = DispatchSemaphore(value: 0)
        let late = Task {
            try await lane.run(within: .milliseconds(10)) { _ in
                gate.wait()
                throw BlockingLane.Occupied("/d", FileSystemError(.lock, .resourceTemporarilyUnavailable)) {
                    isAbandoned.store(true, ordering: .relaxed)
                }
            }
        }
        let error = await #expect(throws: BlockingLane.DeadlineExceeded.self) { try await late.value }
        guard case .body = error?.awaited else { throw try #require(error) }
        gate.signal()
        // The only thread has ended the call before.
        await lane.run {}
        let wasAbandoned = isAbandoned.load(ordering: .relaxed)
        #expect(wasAbandoned)
        #expect(lane.parkedCount == 0)
    }

    @Test("each call gets a thread once the system has threads again")
    func missingThreads() async {
        let refusals = Atomic(0)
        let lane = BlockingLane(limit: 4) { body in
            // Each call is refused a thread, and the lane twice more.
            refusals.add(1, ordering: .relaxed).oldValue >= 6 && ForgeFileSystem.startThread(body)
        }
        let gate = DispatchSemaphore(value: 0)
        let calls = (0..<4).map { _ in Task { await lane.run { gate.wait() } } }
        await waitUntil { lane.threadCount == calls.count && lane.waitingCount == 0 }
        for _ in calls { gate.signal() }
        for call in calls { await call.value }
    }

    @Test("of the calls that wait for a directory only the first is tried, and the others follow in their order")
    func occupiedDirectory() async throws {
        let lane = BlockingLane(limit: 1)
        let directory = OccupiedDirectory()
        var calls: [Task<Void, any Error>] = []
        for number in 0..<50 {
            calls.append(Task { try await lane.run(within: nil) { _ in try directory.enter(number) } })
            await waitUntil { directory.tried.contains(number) }
        }
        directory.forgetTries()
        await waitUntil { directory.tried.count >= 5 }
        let tried = Set(directory.free())
        // Another one is tried if the first is late.
        #expect(tried.count < 5 && tried.contains(0))
        for call in calls { try await call.value }
        let entered = directory.entered
        #expect(Set(entered.prefix(tried.count)) == tried)
        #expect(entered.dropFirst(tried.count).elementsEqual((0..<50).filter { !tried.contains($0) }))
        #expect(await lane.run { 1 } == 1)
    }

    @Test("a cancelled call that waits for a directory leaves at once, and takes no turn from the others")
    func cancellationBesideOccupiedDirectory() async throws {
        let lane = BlockingLane(limit: 2)
        let directory = OccupiedDirectory()
        let calls = (0..<2_000).map { number in
            Task { try await lane.run(within: nil) { _ in try directory.enter(number) } }
        }
        await waitUntil { Set(directory.tried).count == calls.count }
        // Also those that are tried now.
        for (number, call) in calls.enumerated() where number % 3 != 0 || number < 10 { call.cancel() }
        var cancelledCount = 0
        for (number, call) in calls.enumerated() where number % 3 != 0 || number < 10 {
            do { try await call.value } catch is CancellationError { cancelledCount += 1 }
            #expect(lane.parkedCount <= calls.count / 3)
        }
        #expect(cancelledCount == calls.count * 2 / 3 + 4)
        directory.free()
        for (number, call) in calls.enumerated() where number % 3 == 0 && number >= 10 { try await call.value }
        #expect(directory.entered.count + cancelledCount == calls.count)
        await waitUntil { lane.parkedCount + lane.waitingCount == 0 }
    }

    @Test("calls go on although the directory is occupied again and again, and others are cancelled meanwhile")
    func contendedDirectory() async throws {
        let lane = BlockingLane(limit: 4)
        let directory = OccupiedDirectory()
        let calls = (0..<600).map { number in
            Task {
                try await lane.run(within: .seconds(600)) { _ in
                    try directory.enter(number)
                    // Every third call finds it occupied by another program.
                    if number % 3 == 0 { directory.occupy() } else { directory.free() }
                }
            }
        }
        let program = Task {
            while !Task.isCancelled {
                directory.free()
                do { try await Task.sleep(for: .milliseconds(1)) } catch {}
            }
        }
        for call in calls[300..<400] { call.cancel() }
        var endedCount = 0
        for call in calls {
            switch await call.result {
            case .success: endedCount += 1
            case .failure(let error): #expect(error is CancellationError)
            }
        }
        program.cancel()
        await program.value
        #expect(endedCount >= 500)
        #expect(directory.entered.count == Set(directory.entered).count)
    }

    @Test("a call throws what it has found occupied at its deadline; an attempt has the whole time from its beginning")
    func deadlinesBesideOccupiedDirectory() async throws {
        let lane = BlockingLane(limit: 1)
        let directory = OccupiedDirectory()
        let start = ContinuousClock.now
        let error = await #expect(throws: BlockingLane.DeadlineExceeded.self) {
            try await lane.run(within: .milliseconds(100)) { cancellation in
                // The time for that ends with the attempt.
                cancellation.expectWork(ofSize: 1 << 50)
                try directory.enter(0)
            }
        }
        #expect(ContinuousClock.now - start >= .milliseconds(100))
        guard case .occupied(let cause) = error?.awaited else { throw try #require(error) }
        #expect((cause as? FileSystemError)?.isTakenTurn == true)

        let patient = Task {
            try await lane.run(within: .seconds(3)) { cancellation in
                try directory.enter(1)
                usleep(2_000_000)
                try cancellation.check()
            }
        }
        await waitUntil { ContinuousClock.now - start > .seconds(2) }
        directory.free()
        try await patient.value
        #expect(directory.entered == [1])
    }

    @Test("the deadline of a call is later by a second for each MiB of its work, and there is none for long work")
    func expectedWork() throws {
        let (call, deadline) = (Cancellation(), ContinuousClock.now)
        #expect(call.extended(deadline) == deadline)
        for (size, seconds) in [((1 << 20) - 1, 0), (1 << 20, 1), (5 << 19, 3), (-(8 << 20), 3)] as [(Int64, Int)] {
            call.expectWork(ofSize: size)
            #expect(call.extended(deadline) == deadline + .seconds(seconds), "\(size)")
        }
        call.expectNothing()
        #expect(call.extended(deadline) == deadline)
        call.expectLongWork()
        call.expectWork(ofSize: 1 << 40)
        #expect(call.extended(deadline) == nil)

        try call.check()
        call.cancel()
        #expect(call.isCancelled)
        #expect(throws: CancellationError.self) { try call.check() }
        #expect(BlockingLane(limit: 0).limit == 1 && BlockingLane(limit: 2).limit == 2)
    }

    @Test("its threads end when they have no work")
    func idleThreads() async {
        let lane = BlockingLane()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask { await lane.run { _ = usleep(1000) } }
            }
        }
        await waitUntil { lane.threadCount == 0 }
        #expect(await lane.run { 1 } == 1)
    }

    @Test("its threads are neither those of Swift's tasks nor blocked by the signals of the process")
    func threads() async {
        let lane = BlockingLane()
        let blocked = await lane.run {
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            return (sigismember(&mask, SIGTERM), sigismember(&mask, SIGSEGV))
        }
        #expect(blocked == (1, 0))
    }

    @Test("the stores of a root share a lane as long as one of them lives")
    func sharedLanes() {
        let lane = BlockingLane.lane(of: "/a")
        #expect(BlockingLane.lane(of: "/a") === lane)
        #expect(BlockingLane.lane(of: "/b") !== lane)
    }

    private func waitUntil(_ condition: () -> Bool) async {
        while !condition() {
            do { try await Task.sleep(for: .milliseconds(1)) } catch {}
        }
    }
}

/// A directory that another program occupies at first.
private final class OccupiedDirectory: Sendable {
    private let state = Mutex((isFree: false, tried: [Int](), entered: [Int]()))

    /// The calls that have found it occupied.
    var tried: [Int] { state.withLock { $0.tried } }

    /// The calls that have found it free.
    var entered: [Int] { state.withLock { $0.entered } }

    func enter(_ number: Int) throws {
        try state.withLock { state in
            guard state.isFree else {
                state.tried.append(number)
                throw BlockingLane.Occupied("/d", FileSystemError(.lock, .resourceTemporarilyUnavailable))
            }
            state.entered.append(number)
        }
    }

    func occupy() { state.withLock { $0.isFree = false } }

    func forgetTries() { state.withLock { $0.tried = [] } }

    @discardableResult
    func free() -> [Int] {
        state.withLock { state in
            state.isFree = true
            return state.tried
        }
    }
}

/// The number of calls that run, and its maximum.
private final class RunningCount: Sendable {
    private let state = Mutex((now: 0, maximum: 0))

    var maximum: Int { state.withLock { $0.maximum } }

    func change(by difference: Int) {
        state.withLock { state in
            state.now += difference
            state.maximum = max(state.maximum, state.now)
        }
    }
}

@Suite("A first-in, first-out queue")
struct FIFOQueueTests {
    @Test("returns every element once and in order, but for those that were removed")
    func order() {
        var random = SplitMix64(seed: 7)
        var queue = FIFOQueue<Int>()
        var expected: [(number: Int, ticket: FIFOQueue<Int>.Ticket)] = []
        #expect(queue.popFirst() == nil)
        for number in 0..<10_000 {
            // Long phases of growth and of decrease.
            if Int.random(in: 0..<10, using: &random) < (number / 500 % 2 == 0 ? 7 : 3) {
                if Bool.random(using: &random) {
                    expected.append((number, queue.append(number)))
                } else {
                    expected.insert((number, queue.prepend(number)), at: 0)
                }
            } else if !expected.isEmpty, Bool.random(using: &random) {
                let (number, ticket) = expected.remove(at: Int.random(in: 0..<expected.count, using: &random))
                #expect(queue.remove(ticket) == number)
                #expect(queue.remove(ticket) == nil)
            } else {
                #expect(queue.popFirst() == (expected.isEmpty ? nil : expected.removeFirst().number))
            }
            #expect(queue.count == expected.count)
        }
    }
}
