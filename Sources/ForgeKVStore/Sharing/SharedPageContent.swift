import CForgeKVStore
import Foundation

/// The content of the file `#shared`: the state of the log, and the processes that have the store open.
///
/// All of it is a hint: with any content nothing is lost, because records are always read from the log.
struct SharedPageContent {
    /// All bytes of the page.
    private(set) var bytes: [UInt8]

    static let size = 4096

    /// The beginning of a page: a magic number, the version and the size. A later version gets a file of another name.
    static let signature: [UInt8] = {
        var bytes = Array("FORGESH\n".utf8)
        bytes.append(integer: UInt32(1))
        bytes.append(integer: UInt32(size))
        return bytes
    }()

    /// The offset of the log-state word.
    static let wordOffset = 16

    /// The offset of the inode number of the page's file. In a copy of the file it differs from the number of the copy.
    static let inodeOffset = 24

    /// The offset of the last ``Replacement``.
    static let replacementOffset = 32

    /// Which log has replaced which, so that a process that has read the old one goes on in the new one where it was.
    struct Replacement {
        /// The first eight bytes of the file IDs of the new log and of the one that it has replaced.
        var newLog: UInt64
        var oldLog: UInt64

        /// The end of the values in the new log that were taken from the old one.
        var retainedEnd: Int64

        /// How much further on the new log has the records behind the values, which were appended to the old one while
        /// the new one was written. They have the same sizes in both.
        var shift: Int64

        static let size = 24

        init(newLog: UInt64, oldLog: UInt64, retainedEnd: Int64, shift: Int64) {
            (self.newLog, self.oldLog, self.retainedEnd, self.shift) = (newLog, oldLog, retainedEnd, shift)
        }

        /// Where the records begin in the new log that a process may not know which knows the old one up to an end. Any
        /// of them may be wrong.
        func starts(after oldEnd: Int64) -> [Int64] {
            let (next, isInvalid) = oldEnd.addingReportingOverflow(shift)
            return isInvalid || next <= retainedEnd ? [retainedEnd] : [next, retainedEnd]
        }

        init(_ bytes: [UInt8], shift: [UInt8]) {
            self.shift = shift.span.integer(at: 0, as: Int64.self)
            newLog = bytes.span.integer(at: 0, as: UInt64.self)
            oldLog = bytes.span.integer(at: 8, as: UInt64.self)
            retainedEnd = bytes.span.integer(at: 16, as: Int64.self)
        }

        var bytes: [UInt8] {
            var bytes: [UInt8] = []
            bytes.append(integer: newLog)
            bytes.append(integer: oldLog)
            bytes.append(integer: retainedEnd)
            return bytes
        }
    }

    /// The offset of the slot, plus 1, of the process that compacts the log; 0 for none.
    static let compactorOffset = 56

    static func compactor(_ slot: Int?) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(integer: UInt64(slot.map { $0 + 1 } ?? 0))
        return bytes
    }

    var compactor: Int? {
        let number = bytes.span.integer(at: Self.compactorOffset, as: UInt64.self)
        return number > 0 && number <= UInt64(Self.slotCount) ? Int(number) - 1 : nil
    }

    private static let firstSlot = 64
    static let slotSize = 16
    static let slotCount = (observersOffset - firstSlot) / slotSize

    /// The offset of a bit for each slot: whether its process observes the store. Words of eight bytes in the order of
    /// the machine. A bit that a process leaves behind when it is killed costs each write a call of the system, until
    /// the slot is used again.
    static let observersOffset = size - 48
    static let observersSize = 32

    /// The offset of a word of four bytes that each signal increases.
    static let signalOffset = size - 16

    /// The offset of the shift of the last ``Replacement``.
    static let shiftOffset = size - 8

    /// The page of a file, without processes.
    init(inode: UInt64) {
        bytes = Self.signature + [UInt8](repeating: 0, count: Self.size - Self.signature.count)
        bytes.replaceSubrange(Self.inodeOffset..<Self.inodeOffset + 8, with: Self.inodeBytes(inode))
    }

    /// The inode number of the page's file, as it is stored.
    static func inodeBytes(_ inode: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(integer: inode)
        return bytes
    }

    /// The page that was read from a file. The signature is not checked: a slot counts if a process of that number and
    /// start is running. A page that was copied to another file names the processes that have the original open, and
    /// counts as empty.
    init(_ bytes: [UInt8], inode: UInt64) {
        let rest = bytes.prefix(Self.size).dropFirst(Self.signature.count)
        self.bytes = Self.signature + rest
        self.bytes += [UInt8](repeating: 0, count: Self.size - self.bytes.count)
        let recorded = self.bytes.span.integer(at: Self.inodeOffset, as: UInt64.self)
        if recorded != 0, recorded != inode { self = Self(inode: inode) }
    }

    /// The offset of a slot in the file.
    static func offset(ofSlot slot: Int) -> Int { firstSlot + slot * slotSize }

    /// A slot with a process in it.
    static func slot(_ process: ProcessIdentity) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(integer: process.id)
        bytes.append(integer: process.boot)
        bytes.append(integer: process.start)
        return bytes
    }

    /// The process in a slot; nil if it is empty or holds what is none.
    func process(inSlot slot: Int) -> ProcessIdentity? {
        let offset = Self.offset(ofSlot: slot)
        let bytes = bytes.span
        let id = bytes.integer(at: offset, as: Int32.self)
        guard id > 0 else { return nil }
        return ProcessIdentity(
            id: id, boot: bytes.integer(at: offset + 4, as: UInt32.self),
            start: bytes.integer(at: offset + 8, as: UInt64.self))
    }

    /// The processes that may have the store open, but for the one in a slot.
    func running(_ processes: ProcessTable, without ownSlot: Int? = nil) -> [ProcessIdentity] {
        (0..<Self.slotCount).compactMap { slot in
            guard slot != ownSlot, let process = process(inSlot: slot), processes.isRunning(process) else { return nil }
            return process
        }
    }

    /// The first slot that no running process has.
    func freeSlot(_ processes: ProcessTable) -> Int? {
        (0..<Self.slotCount).first { slot in process(inSlot: slot).map { !processes.isRunning($0) } ?? true }
    }

    mutating func put(_ process: ProcessIdentity, inSlot slot: Int) {
        let offset = Self.offset(ofSlot: slot)
        bytes.replaceSubrange(offset..<offset + Self.slotSize, with: Self.slot(process))
    }
}

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
