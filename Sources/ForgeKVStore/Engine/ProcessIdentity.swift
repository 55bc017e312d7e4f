import CForgeKVStore
import Foundation

/// Identifies a process, even after its number was given to another one.
package struct ProcessIdentity: Hashable, Sendable {
    /// The number of the process; positive.
    package var id: Int32

    /// The boot of the system in which it runs; 0 if that is not known.
    package var boot: UInt32

    /// When it was started; 0 if that is not known.
    package var start: UInt64

    package init(id: Int32, boot: UInt32 = 0, start: UInt64 = 0) {
        self.id = id
        self.boot = boot
        self.start = start
    }
}

/// How a store learns of processes.
package struct ProcessTable: Sendable {
    /// The process that opens the store.
    package var own: ProcessIdentity

    /// Whether a process may still be running. When in doubt it is.
    package var isRunning: @Sendable (ProcessIdentity) -> Bool

    package init(own: ProcessIdentity, isRunning: @escaping @Sendable (ProcessIdentity) -> Bool) {
        self.own = own
        self.isRunning = isRunning
    }

    /// The processes of the operating system.
    package static var system: ProcessTable {
        // The process may be a child that was forked from the one that asked first.
        first.own.id == ProcessInfo.processInfo.processIdentifier ? first : ProcessTable()
    }

    private static let first = ProcessTable()

    private init() {
        let id = ProcessInfo.processInfo.processIdentifier
        let boot = forge_boot_number()
        self.init(own: ProcessIdentity(id: id, boot: boot, start: forge_process_start(id))) { process in
            guard process.boot == 0 || boot == 0 || process.boot == boot else { return false }
            guard forge_process_is_running(process.id) != 0 else { return false }
            let start = forge_process_start(process.id)
            return process.start == 0 || start == 0 || process.start == start
        }
    }
}
