import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

/// The lock of a store that several processes have open: had for the time of a call only.
///
/// It is asked for again and again rather than waited for, so that waiting comes to an end.
final class SharedLock: Sendable {
    private let fileSystem: any POSIXFileSystem
    private let directory: Descriptor

    /// Lets the threads of this process come one after another.
    private let turn = NSLock()

    /// The open file of the lock; nil when it has to be opened anew, or was closed for good.
    private let descriptor = Mutex<Descriptor?>(nil)

    /// What stands in the lock's file while processes share the store, where there is a number otherwise.
    private static let text = Array("shared\n     ".utf8)

    /// How long a process that opens the store takes a number in the lock's file for a leftover that the holder of the lock
    /// is about to overwrite.
    private static let grace = Duration.milliseconds(50)

    init(at directory: Descriptor, on fileSystem: any POSIXFileSystem) {
        self.directory = directory
        self.fileSystem = fileSystem
    }

    /// Takes the lock; it must be given back by the same thread.
    ///
    /// - Throws: `EAGAIN` if others have it for all that time.
    func take(within timeout: Duration) throws(FileSystemError) {
        try take(within: timeout) { (_) throws(FileSystemError) in true }
    }

    /// Takes the lock to open the store, and says in its file that the store is shared; gives up soon if a process has the
    /// store for itself.
    func takeToOpen(within timeout: Duration) throws(FileSystemError) {
        try take(within: timeout) { (waited) throws(FileSystemError) in
            guard waited >= Self.grace else { return true }
            return try read() == Self.text
        }
        do throws(FileSystemError) {
            guard try read() != Self.text, let descriptor = descriptor.withLock({ $0 }) else { return }
            try fileSystem.writeBytes(Self.text, to: descriptor, at: 0)
        } catch {
            giveBack()
            throw error
        }
    }

    private func read() throws(FileSystemError) -> [UInt8] {
        try fileSystem.readBytes(of: try opened(), at: 0, count: Self.text.count)
    }

    private func take(
        within timeout: Duration, while isWorthWaiting: (Duration) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) {
        let busy = FileSystemError(.lock, .resourceTemporarilyUnavailable, path: .lockName)
        let start = ContinuousClock.now
        // The time that other threads of this process take counts too.
        guard turn.try() || turn.lock(before: Date(timeIntervalSinceNow: timeout / .seconds(1))) else { throw busy }
        do throws(FileSystemError) {
            guard try !tryToTake() else { return }
            var pause = 0.000_02
            repeat {
                let waited = start.duration(to: .now)
                guard waited < timeout, try isWorthWaiting(waited) else { throw busy }
                Thread.sleep(forTimeInterval: pause)
                pause = min(2 * pause, 0.001)
            } while try !tryToTake()
        } catch {
            turn.unlock()
            throw error
        }
    }

    private func tryToTake() throws(FileSystemError) -> Bool {
        let descriptor = try opened()
        do throws(FileSystemError) {
            try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                try fileSystem.lock(descriptor, .exclusive, waiting: false)
            }
            // Another program has removed the file: other processes lock the one that has its name now.
            guard try fileSystem.status(of: .descriptor(descriptor)).linkCount > 0 else {
                close()
                return false
            }
            return true
        } catch  where error.errno == .resourceTemporarilyUnavailable {
            return false
        } catch {
            throw error
        }
    }

    private func opened() throws(FileSystemError) -> Descriptor {
        if let descriptor = descriptor.withLock({ $0 }) { return descriptor }
        let opened = try fileSystem.openStoreFile(.lockName, at: directory)
        descriptor.withLock { $0 = opened }
        return opened
    }

    /// Gives the lock back.
    func giveBack() {
        if let descriptor = descriptor.withLock({ $0 }) {
            do throws(FileSystemError) {
                try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                    try fileSystem.lock(descriptor, .unlocked, waiting: false)
                }
            } catch {
                // Closing gives it back too.
                close()
            }
        }
        turn.unlock()
    }

    /// Closes the lock's file, which gives the lock back; it is opened anew when it is needed.
    func close() {
        let open = descriptor.withLock { descriptor in
            defer { descriptor = nil }
            return descriptor
        }
        if let open { fileSystem.discard(open) }
    }
}
