import Foundation
import Synchronization
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("Group commit") struct GroupCommitTests {
    @Test(
        "a waiter woken as leader whose work is already done passes the lead on",
        .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func passedLead() throws {
        let commit = GroupCommit()
        let done = Atomic<UInt64>(0)
        let calls = Atomic(0)
        #expect(commit.begin(1) { false })
        let finished = DispatchSemaphore(value: 0)
        // The first waiter is not covered by the leader's flush, but its work is done by the time it runs.
        Thread.detachNewThread {
            let leads = commit.begin(5) { calls.wrappingAdd(1, ordering: .relaxed).oldValue > 0 }
            if leads { commit.end(flushed: 5) }
            finished.signal()
        }
        while commit.waiterCount < 1 { sched_yield() }
        Thread.detachNewThread {
            let leads = commit.begin(9) { done.load(ordering: .relaxed) >= 9 }
            if leads { commit.end(flushed: 9) }
            finished.signal()
        }
        while commit.waiterCount < 2 { sched_yield() }
        commit.end(flushed: 4)
        for _ in 0..<2 { #expect(finished.wait(timeout: .now() + 20) == .success) }
    }
}

@Suite("The states of a group commit") struct GroupCommitStateTests {
    private var state = GroupCommitState<Int>()

    @Test("one thread leads at a time, and the others wait")
    mutating func lead() {
        let leads = (1...3).map { state.begin(UInt64($0), $0) }
        #expect(leads == [true, false, false])
        #expect(state.waiterCount == 2)
    }

    @Test("a flush serves every waiter it covers and hands the lead to the first that it does not")
    mutating func handover() {
        for number in 1...5 { _ = state.begin(UInt64(number), number) }
        let outcome = state.end(flushed: 3)
        #expect(outcome.served == [2, 3])
        #expect(outcome.leader == 4)
        // The lead was handed over and is not free in between.
        let intruder = state.begin(9, 9)
        #expect(!intruder)
        let next = state.end(flushed: 4)
        #expect(next.served.isEmpty)
        #expect(next.leader == 5)
    }

    @Test("the lead is free when no thread waits")
    mutating func free() {
        _ = state.begin(1, 1)
        _ = state.begin(1, 2)
        let outcome = state.end(flushed: 1)
        #expect(outcome.served == [2])
        #expect(outcome.leader == nil)
        let leads = state.begin(2, 3)
        #expect(leads)
    }

    @Test("a leader expects as many threads as took part in the last flush")
    mutating func expectation() {
        for number in 1...3 { _ = state.begin(1, number) }
        _ = state.end(flushed: 1)
        _ = state.begin(2, 1)
        #expect(state.expectsMore)
        _ = state.begin(2, 2)
        _ = state.begin(2, 3)
        #expect(!state.expectsMore)
    }
}
