import CForgeKVStore
import Dispatch
import Foundation
import Synchronization

/// Work of an engine in a thread of its own.
///
/// A thread and not a queue: closing a store waits for its jobs, and stores that are closed on a dispatch queue would
/// use up the threads that jobs on another queue need.
final class BackgroundJob: Sendable {
    private let work: @Sendable () -> Void
    private let group: DispatchGroup
    private let deferred = Mutex<[@Sendable () -> Void]>([])

    private static let key = "ForgeKVStore.BackgroundJob"

    private init(_ group: DispatchGroup, _ work: @escaping @Sendable () -> Void) {
        self.group = group
        self.work = work
    }

    /// The job that the calling thread runs; nil in any other thread.
    static var current: BackgroundJob? { Thread.current.threadDictionary[key] as? BackgroundJob }

    /// Runs `work`, during which `group` is not empty: in another thread, or in this one if there can be no other.
    static func start(in group: DispatchGroup, _ work: @escaping @Sendable () -> Void) {
        group.enter()
        let job = BackgroundJob(group, work)
        let context = Unmanaged.passRetained(job)
        let isStarted = forge_run_in_thread(
            { context in
                guard let context else { return }
                Unmanaged<BackgroundJob>.fromOpaque(context).takeRetainedValue().run()
            }, context.toOpaque())
        guard isStarted == 0 else { return }
        context.release()
        job.run()
    }

    /// Does something in the same thread when the job is done, and `group` may be empty.
    func afterwards(_ work: @escaping @Sendable () -> Void) { deferred.withLock { $0.append(work) } }

    private func run() {
        let dictionary = Thread.current.threadDictionary
        let outer = dictionary[Self.key]
        dictionary[Self.key] = self
        work()
        dictionary[Self.key] = outer
        group.leave()
        for work in deferred.withLock({ $0 }) { work() }
    }
}
