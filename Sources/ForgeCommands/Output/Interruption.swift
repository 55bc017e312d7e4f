import Foundation
import Synchronization
import SystemPackage

// Memory safety: The message is written before the signal handler is installed, never freed, and only read
// afterwards. The handler calls nothing that is not async-signal-safe.

/// The reaction to control-C: the process ends at once, or, in a verb that has something to tidy up, soon.
public enum Interruption {
    private static let isAwaited = Atomic(false)
    private static let isRequested = Atomic(false)

    /// The line that the signal handler writes; made before the handler is installed.
    nonisolated(unsafe) private static let message: UnsafeMutableBufferPointer<UInt8> = {
        let failure = ErrorMessage.isJSON ? ErrorMessage.json : ErrorMessage.text
        let bytes = Array(failure("Error: interrupted", ExitStatus.interrupted.rawValue).utf8)
        let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = unsafe buffer.initialize(from: bytes)
        return unsafe buffer
    }()

    /// Handles `SIGINT`, unless the caller ignores it, as shells do for processes in the background.
    public static func install() {
        var earlier = sigaction()
        unsafe sigaction(SIGINT, nil, &earlier)
        guard !earlier.isIgnoring else { return }
        _ = unsafe message
        _ = isAwaited.load(ordering: .relaxed)
        _ = isRequested.load(ordering: .relaxed)
        signal(SIGINT) { _ in Interruption.handle() }
    }

    /// Only loads, stores, `write(2)` and `_exit(2)`, which are async-signal-safe.
    private static func handle() {
        // A second control-C does not wait.
        if isAwaited.exchange(false, ordering: .relaxed) {
            isRequested.store(true, ordering: .relaxed)
            return
        }
        _ = unsafe write(STDERR_FILENO, message.baseAddress, message.count)
        _exit(ExitStatus.interrupted.rawValue)
    }

    /// From now on the verb calls ``check()`` often, and ends in order.
    static func endInOrder() {
        isAwaited.store(true, ordering: .relaxed)
    }

    /// Runs `body`, and cancels its task once control-C was pressed: a wait for a server ends then.
    static func cancelling(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let work = Task(operation: body)
        let watch = Task {
            while !isRequested.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(20)) }
            work.cancel()
        }
        defer { watch.cancel() }
        do {
            try await work.value
        } catch {
            try check()
            throw error
        }
    }

    /// Throws once control-C was pressed.
    static func check() throws(CommandFailure) {
        if isRequested.load(ordering: .relaxed) { throw CommandFailure("interrupted", .interrupted) }
    }
}

extension sigaction {
    fileprivate var isIgnoring: Bool {
        #if os(Linux)
        unsafe unsafeBitCast(__sigaction_handler.sa_handler, to: Int.self) == 1
        #else
        unsafe unsafeBitCast(__sigaction_u.__sa_handler, to: Int.self) == 1
        #endif
    }
}
