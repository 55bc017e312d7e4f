import CForgeFileSystem
import Dispatch
import Synchronization
import SystemPackage

// Memory safety: A word lies in a mapping that its signal retains, aligned and within the bounds, and every access is
// atomic. The thread of an observation retains its object until it has ended.

/// Wakes the processes of this machine that observe a file.
///
/// ``POSIXFileSystem/makeSignal(of:)`` creates it.
public protocol FileSignal: Sendable {
    /// Wakes all observers, in all processes.
    func send()

    /// Calls `body` once, and again after each signal, until the observation is cancelled or released, or its process
    /// ends.
    ///
    /// A signal that is sent after a call of `body` has begun leads to another call; several of them to one. Calls do not
    /// overlap, and are made on a thread of the observation, with no lock held. A call may follow without a signal.
    ///
    /// - Parameter body: Returns the time after which it is called again although no signal was sent; nil for never.
    /// - Returns: The observation. A call of `body` may still be under way after its end.
    /// - Throws: ``FileSystemError``: `ENOTSUP` if the system cannot wait for signals, `EAGAIN` if it has no thread.
    func observe(_ body: @escaping @Sendable () -> Duration?) throws(FileSystemError) -> any FileSignalObservation
}

/// Calls of a closure after each signal of a file, until it is cancelled or released.
public protocol FileSignalObservation: AnyObject, Sendable {
    /// Ends the observation.
    func cancel()
}

// MARK: Signals in shared memory

extension FileMapping {
    /// The signal in a word of four bytes, which processes that map the same part of the file share; nil unless the memory
    /// is the system's.
    ///
    /// It is `futex(2)` on Linux, and `os_sync_wait_on_address` with `OS_SYNC_WAIT_ON_ADDRESS_SHARED` on Darwin. An
    /// observer costs a thread, which uses no processor time while it waits.
    package func makeSignal(at offset: Int) -> (any FileSignal)? {
        guard let word = unsafe systemMemory else { return nil }
        precondition(offset >= 0 && offset % 4 == 0 && offset <= count - 4, "no word is at \(offset)")
        return unsafe WordSignal(mapping: self, word: word + offset)
    }
}

/// A word in a mapping that is increased by each signal.
///
/// `@unchecked Sendable`: the word lives as long as the mapping, and is only accessed atomically.
@safe
private struct WordSignal: FileSignal, @unchecked Sendable {
    let mapping: FileMapping
    let word: UnsafeMutableRawPointer

    func send() { unsafe forge_signal(word) }

    func observe(_ body: @escaping @Sendable () -> Duration?) throws(FileSystemError) -> any FileSignalObservation {
        // Returns at once, as it is not the value.
        guard unsafe wait(while: forge_load_signal(word) &+ (1 << 31), atMost: .milliseconds(1)) else {
            throw FileSystemError(.watch, .notSupported)
        }
        let thread = unsafe Unmanaged.passRetained(WaitingThread(self, body))
        let observation = unsafe Observation(thread.takeUnretainedValue())
        let run: @convention(c) (UnsafeMutableRawPointer?) -> Void = { thread in
            if let thread = unsafe thread {
                unsafe Unmanaged<WaitingThread>.fromOpaque(thread).takeRetainedValue().run()
            }
        }
        guard unsafe forge_start_thread(run, thread.toOpaque()) == 0 else {
            unsafe thread.release()
            throw FileSystemError(.watch, .resourceTemporarilyUnavailable)
        }
        return observation
    }

    /// Waits while the word has a value; returns false if the system cannot.
    func wait(while value: UInt32, atMost time: Duration?) -> Bool {
        unsafe forge_wait_for_signal(word, value, time.map { Int64($0.nanoseconds) } ?? -1) == 0
    }

    private final class WaitingThread: Sendable {
        private let signal: WordSignal
        /// Nil once the observation has ended, so that what it captures does not wait for the thread.
        private let body: Mutex<(@Sendable () -> Duration?)?>

        init(_ signal: WordSignal, _ body: @escaping @Sendable () -> Duration?) {
            self.signal = signal
            self.body = Mutex(body)
        }

        /// The longest wait for a word that signals of other processes may not reach: in a page without a file behind it.
        private static let longestDeafness = Duration.seconds(1)

        func run() {
            while true {
                // Before the call, so that a signal that is sent from now on is not missed.
                let value = unsafe forge_load_signal(signal.word)
                guard let body = body.withLock({ $0 }) else { return }
                var time = body()
                if signal.mapping.hasFaulted { time = min(time ?? Self.longestDeafness, Self.longestDeafness) }
                if signal.wait(while: value, atMost: time) { continue }
                // The page cannot be loaded now.
                _ = DispatchSemaphore(value: 0).wait(timeout: .now() + .seconds(1))
            }
        }

        func cancel() {
            let body = body.withLock { $0.take() }
            if body != nil { signal.send() }
        }
    }

    private final class Observation: FileSignalObservation {
        private let thread: WaitingThread

        init(_ thread: WaitingThread) { self.thread = thread }

        deinit { cancel() }

        func cancel() { thread.cancel() }
    }
}

extension Duration {
    fileprivate var nanoseconds: Int { Int(min(max(self, .zero), .seconds(86_400)) / .nanoseconds(1)) }
}

// MARK: Signals within a process

/// A signal without effect, for files of systems without signals: observers are called after the times that they return.
package struct PollingSignal: FileSignal {
    package init() {}

    package func send() {}

    package func observe(_ body: @escaping @Sendable () -> Duration?) -> any FileSignalObservation {
        let observation = QueuedObservation(body)
        observation.signal()
        return observation
    }
}

/// Calls of a closure on a queue.
final class QueuedObservation: FileSignalObservation {
    private let queue = DispatchQueue(label: "ForgeFileSystem.signal")
    private let state: Mutex<State>
    private let onEnd: @Sendable (ObjectIdentifier) -> Void

    private struct State {
        var body: (@Sendable () -> Duration?)?
        /// Whether a call is to begin.
        var isPending = false
        /// The number of calls that have begun.
        var callCount = 0
    }

    /// - Parameters:
    ///   - body: Is called after each signal.
    ///   - onEnd: Is called when the observation is released.
    init(_ body: @escaping @Sendable () -> Duration?, onEnd: @escaping @Sendable (ObjectIdentifier) -> Void = { _ in })
    {
        state = Mutex(State(body: body))
        self.onEnd = onEnd
    }

    deinit { onEnd(ObjectIdentifier(self)) }

    func signal() {
        let isFirst = state.withLock { state in
            guard state.body != nil, !state.isPending else { return false }
            state.isPending = true
            return true
        }
        if isFirst { queue.async { self.call() } }
    }

    private func call() {
        let (body, number) = state.withLock { state in
            state.isPending = false
            state.callCount += 1
            return (state.body, state.callCount)
        }
        guard let time = body?() else { return }
        queue.asyncAfter(deadline: .now() + .nanoseconds(time.nanoseconds)) { [weak self] in
            guard let self, state.withLock({ $0.callCount }) == number else { return }
            signal()
        }
    }

    func cancel() { _ = state.withLock { $0.body.take() } }
}

extension InMemoryFileSystem {
    /// The signal of an open file, which reaches the observers in all processes of the tree.
    public func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        let inode = try perform(.watch) { (state) throws(Errno) in
            state.inodes[state.openFiles[try state.openFile(descriptor)].inode].number
        }
        return InMemorySignal(tree: tree, process: process, inode: inode)
    }

    /// An observation of a file.
    struct SignalObserver: Sendable {
        var process: Int
        var inode: UInt64
        /// Of the observation. A reference that was loaded under the lock of the tree could be the last one, and its end
        /// acquires that lock.
        var id: ObjectIdentifier
        weak var observation: QueuedObservation?
    }
}

/// The signal of a file of an ``InMemoryFileSystem``.
private struct InMemorySignal: FileSignal {
    let tree: InMemoryFileSystem.Tree
    let process: Int
    /// The number of the inode, which no other file gets.
    let inode: UInt64

    func send() {
        // Released outside the lock of the tree, which the end of an observation acquires.
        let observations = tree.state.withLock { state in
            state.signalObservers.filter { $0.inode == inode }.compactMap(\.observation)
        }
        for observation in observations { observation.signal() }
    }

    func observe(_ body: @escaping @Sendable () -> Duration?) -> any FileSignalObservation {
        let observation = QueuedObservation(body) { [tree] id in
            tree.state.withLock { $0.signalObservers.removeAll { $0.id == id } }
        }
        let observer = InMemoryFileSystem.SignalObserver(
            process: process, inode: inode, id: ObjectIdentifier(observation), observation: observation)
        tree.state.withLock { $0.signalObservers.append(observer) }
        observation.signal()
        return observation
    }
}
