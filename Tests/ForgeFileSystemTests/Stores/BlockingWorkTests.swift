import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("Blocking work")
struct BlockingWorkTests {
    @Test("runs outside the thread pool and returns its result or error")
    func run() async throws {
        #expect(await BlockingWork.run { 7 } == 7)
        await #expect(throws: FileSystemError.self) {
            try await BlockingWork.run { () throws(FileSystemError) -> Int in throw FileSystemError(.read, .ioError) }
        }
    }

    @Test("does not delay other work")
    func parallel() async {
        let gate = DispatchSemaphore(value: 0)
        async let waiting: Void = BlockingWork.run { gate.wait() }
        await BlockingWork.run { _ = gate.signal() }
        await waiting
    }

    @Test("every one of thousands of concurrent calls returns its result, and only a limited number runs at a time")
    func manyCalls() async {
        let running = RunningCount()
        let results = await withTaskGroup(of: Int.self) { group in
            for number in 0..<3000 {
                group.addTask {
                    await BlockingWork.run {
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
        #expect((1...BlockingWork.limit).contains(running.maximum))
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
