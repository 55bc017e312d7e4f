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

    private static let firstSlot = 64
    static let slotSize = 16
    static let slotCount = (size - firstSlot) / slotSize

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
        let recorded = self.bytes.withUnsafeBytes { $0.integer(at: Self.inodeOffset, as: UInt64.self) }
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
        return bytes.withUnsafeBytes { bytes -> ProcessIdentity? in
            let id = bytes.integer(at: offset, as: Int32.self)
            guard id > 0 else { return nil }
            return ProcessIdentity(
                id: id, boot: bytes.integer(at: offset + 4, as: UInt32.self),
                start: bytes.integer(at: offset + 8, as: UInt64.self))
        }
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
