import Synchronization
import SystemPackage

/// The names of one store object's temporary files and trash, recorded so that they can be removed if the process dies.
///
/// The journal is a file in the store's root (``TemporaryFileJournalFile``), locked while a name of it is in use: no
/// lock outlives a call, except that of a writer. It contains a random number, which is part of each name, and for each
/// slot the directory in which a file of that slot was last created. So a writer that finds the file unlocked knows
/// exactly which names its last owner may have left, and checks no others. The directory is recorded before the name is
/// created. The record is not flushed for temporary files: after a power cut an unrecorded one may exist, and is kept.
///
/// A journal that was unlocked may get another owner. The token in the file, which every new owner replaces, tells
/// that; the old owner then takes over an unlocked journal as if it were new.
final class TemporaryFileJournal: Sendable {
    private struct Slot {
        /// Relative to the root, empty for the root itself; nil if the recorded directory is unknown.
        var directory: POSIXPath?
        var isFlushed = false
        /// Whether the name is in use, or a file with it is kept.
        var isTaken = false
    }

    private struct State {
        var file: TemporaryFileJournalFile
        var slots: [Slot]
        /// The number of names in use; the file is locked while there are any.
        var usedCount = 0
    }

    private let fileSystem: any POSIXFileSystem
    private let root: Descriptor
    private let token: UInt64
    private let state: Mutex<State>

    /// The unique part of the names. It may change while no name is in use.
    var id: POSIXPath { state.withLock { $0.file.id } }

    /// Takes over or creates a journal, and removes the files left by the owners of all unlocked journals.
    ///
    /// - Parameters:
    ///   - root: The root of the store, open during the lifetime of the object.
    ///   - fileSystem: The file system of the store.
    /// - Throws: `EAGAIN` of a lock if all journals are in use.
    init(at root: Descriptor, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        self.fileSystem = fileSystem
        self.root = root
        token = fileSystem.randomBits()
        let state = try Self.takeOver(token, at: root, on: fileSystem)
        state.file.unlock()
        self.state = Mutex(state)
    }

    /// Locks a journal, takes it over or creates it, and removes the files left by the owners of all unlocked journals.
    private static func takeOver(
        _ token: UInt64, at root: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> State {
        var own: (file: TemporaryFileJournalFile, slots: [Slot])?
        do throws(FileSystemError) {
            for number in 0..<TemporaryFileJournalFile.maximumCount {
                let opening = try TemporaryFileJournalFile.open(
                    number, creatingFor: own == nil ? token : nil, at: root, on: fileSystem)
                if case .missing = opening { break }
                guard case .taken(let found) = opening else { continue }
                var slots: [Slot]
                do throws(FileSystemError) {
                    let directories = try found.directories()
                    slots = directories.map { Slot(directory: $0) }
                    for kept in try found.removeLeftovers(directories, at: root) { slots[kept].isTaken = true }
                } catch {
                    found.close()
                    throw error
                }
                if own == nil { own = (found, slots) } else { found.close() }
            }
        } catch {
            own?.file.close()
            throw error
        }
        guard let own else {
            throw FileSystemError(.lock, .resourceTemporarilyUnavailable, path: TemporaryFileJournalFile.name(0))
        }
        do throws(FileSystemError) {
            if try !own.file.hasToken(token) { try own.file.writeToken(token) }
        } catch {
            own.file.close()
            throw error
        }
        return State(file: own.file, slots: own.slots)
    }

    deinit {
        state.withLock { $0.file }.close()
    }

    /// Locks the journal before its first name is used; another one if this has another owner.
    private func lock(_ state: inout State) throws(FileSystemError) {
        if try state.file.lock() {
            do throws(FileSystemError) {
                if try state.file.hasToken(token) { return }
            } catch {
                state.file.unlock()
                throw error
            }
            state.file.unlock()
        }
        let new = try Self.takeOver(token, at: root, on: fileSystem)
        state.file.close()
        state = new
    }

    /// A recorded name, reserved for one file at a time.
    struct Name: Sendable {
        let path: POSIXPath
        fileprivate let slot: Int
    }

    /// Calls `body` with an unused name in an open directory, whose path is relative to the root and empty for the root
    /// itself. If `isDurable` is set, the slot also survives a power cut.
    func withName<Result>(
        _ prefix: String, in path: POSIXPath, at directory: Descriptor, isDurable: Bool,
        _ body: (POSIXPath) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let name = try takeName(prefix, in: path, at: directory, isDurable: isDurable)
        let result: Result
        do {
            result = try body(name.path)
        } catch {
            giveBackIfFree(name, at: directory)
            throw error
        }
        giveBack(name)
        return result
    }

    /// Reserves an unused name in an open directory.
    func takeName(
        _ prefix: String, in path: POSIXPath, at directory: Descriptor, isDurable: Bool
    ) throws(FileSystemError) -> Name {
        let (file, number, slot) = try takeSlot(for: path)
        let name = Name(path: file.name(prefix, slot: number), slot: number)
        do {
            if slot.directory != path { try file.record(path, slot: number) }
            state.withLock { $0.slots[number].directory = path }
            if isDurable, slot.directory != path || !slot.isFlushed {
                try file.synchronize()
                state.withLock { $0.slots[number].isFlushed = true }
            }
        } catch {
            giveBackIfFree(name, at: directory)
            throw error
        }
        return name
    }

    /// Makes the records of names durable, with one flush.
    func synchronize(_ names: [Name]) throws(FileSystemError) {
        let file = state.withLock { state in
            names.contains { !state.slots[$0.slot].isFlushed } ? state.file : nil
        }
        guard let file else { return }
        try file.synchronize()
        state.withLock { state in
            for name in names { state.slots[name.slot].isFlushed = true }
        }
    }

    /// Releases a name whose file was renamed or removed.
    func giveBack(_ name: Name) {
        release(name, isFree: true)
    }

    /// Releases a name unless its file still exists: then it is not reused, so that the journal still names the file.
    func giveBackIfFree(_ name: Name, at directory: Descriptor) {
        release(name, isFree: isFree(name.path, at: directory))
    }

    private func release(_ name: Name, isFree: Bool) {
        state.withLock { state in
            if isFree { state.slots[name.slot].isTaken = false }
            state.usedCount -= 1
            if state.usedCount == 0 { state.file.unlock() }
        }
    }

    private func takeSlot(
        for path: POSIXPath
    ) throws(FileSystemError) -> (TemporaryFileJournalFile, number: Int, Slot) {
        try state.withLock { (state) throws(FileSystemError) in
            if state.usedCount == 0 { try lock(&state) }
            state.usedCount += 1
            let known = state.slots.firstIndex { !$0.isTaken && $0.directory == path }
            let number = known ?? state.slots.firstIndex { !$0.isTaken } ?? state.slots.count
            if number == state.slots.count { state.slots.append(Slot()) }
            let slot = state.slots[number]
            state.slots[number].isTaken = true
            if slot.directory != path {
                state.slots[number].directory = nil
                state.slots[number].isFlushed = false
            }
            return (state.file, number, slot)
        }
    }

    private func isFree(_ name: POSIXPath, at directory: Descriptor) -> Bool {
        do {
            return try !fileSystem.exists(name, at: directory, followsSymbolicLinks: false)
        } catch {
            return false
        }
    }
}

/// A file named `#journal-` and a number in a store's root, which records the temporary names of its owner, the store
/// object that has locked it last.
///
/// Format: 8 bytes `FORGETMP`, the version (4 bytes, little-endian), 16 base-32 characters that are part of each name,
/// and the CRC-32C of the 28 bytes before it; at offset 64 the token of the owner (8 bytes). Slot *n* is at offset 512 + 1,536 × *n*: the CRC-32C of the following
/// bytes, the length of a path (2 bytes), and the path, relative to the root, of the directory in which `#tmp-<id>-<n>`
/// or `#trash-<id>-<n>` was last created. A slot with a wrong checksum was not written completely; one whose path is
/// not a valid key was not written by a store. Both are ignored.
///
/// The files are numbered without gaps and never removed: the next writer takes over one that is not locked.
struct TemporaryFileJournalFile: Sendable {
    enum Opening {
        case missing
        /// Locked by its owner, or not a file of this format.
        case inUse
        case taken(TemporaryFileJournalFile)
    }

    /// The maximum number of store objects that can write in one root concurrently.
    static let maximumCount = 4096

    private static let maximumSlotCount = 1 << 16
    private static let slotSize = 1536
    private static let slotsOffset = 512
    private static let magic = Array("FORGETMP".utf8) + [1, 0, 0, 0]
    static let headerLength = magic.count + POSIXPath.randomPartLength + 4

    let id: POSIXPath
    let fileSystem: any POSIXFileSystem
    let descriptor: Descriptor

    private static let tokenOffset: Int64 = 64

    static func name(_ number: Int) -> POSIXPath { POSIXPath("\(POSIXPath.journalPrefix)\(number)") }

    /// Opens and locks a file, or creates it for the owner with a token if it is missing; a file of another format is
    /// left unchanged.
    static func open(
        _ number: Int, creatingFor token: UInt64?, at root: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Opening {
        let name = name(number)
        var descriptor: Descriptor?
        do {
            descriptor = try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                try fileSystem.open(name, at: root, .readWrite, options: [.noFollow, .nonBlocking])
            }
        } catch  where error.errno == .noSuchFileOrDirectory {
            guard token != nil else { return .missing }
            descriptor = try create(name, at: root, on: fileSystem)
        } catch  where error.errno.isForeign {
            return .inUse
        } catch  where error.errno.isRefusal {
            guard try isRefusedAlone(number, at: root, on: fileSystem) else { throw error }
            return .inUse
        }
        guard let descriptor else { return .inUse }
        do throws(FileSystemError) {
            guard let id = try lock(descriptor, name, token, at: root, on: fileSystem) else {
                fileSystem.discard(descriptor)
                return .inUse
            }
            return .taken(TemporaryFileJournalFile(id: id, fileSystem: fileSystem, descriptor: descriptor))
        } catch {
            fileSystem.discard(descriptor)
            throw error
        }
    }

    /// Nil if another writer has just created the file.
    private static func create(
        _ name: POSIXPath, at root: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Descriptor? {
        do {
            return try fileSystem.openPrivateFile(name, at: root)
        } catch  where error.errno == .fileExists {
            return nil
        }
    }

    /// The identifier of the file, a new one if the file is empty; nil if it is locked or of another format.
    private static func lock(
        _ descriptor: Descriptor, _ name: POSIXPath, _ token: UInt64?, at root: Descriptor,
        on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> POSIXPath? {
        let status = try fileSystem.status(of: .descriptor(descriptor))
        guard status.type == .regular, status.linkCount == 1 else { return nil }
        guard try fileSystem.tryLock(descriptor, .exclusive) else { return nil }
        let header = try fileSystem.readBytes(of: descriptor, at: 0, count: headerLength)
        if let id = id(in: header) { return id }
        // The file is empty: its creator was killed, or a power cut removed the content.
        guard header.allSatisfy({ $0 == 0 }) else { return nil }
        let id = POSIXPath.reserved("", using: fileSystem.randomBits)
        let content = magic + id.bytes
        do throws(FileSystemError) {
            try fileSystem.writeBytes(content + checksum(of: content), to: descriptor, at: 0)
            if let token { try fileSystem.writeBytes(bytes(of: token), to: descriptor, at: tokenOffset) }
            try fileSystem.synchronize(descriptor, .full)
            try fileSystem.synchronizeDirectory(root)
        } catch {
            throw error.named(name)
        }
        return id
    }

    static func id(in header: [UInt8]) -> POSIXPath? {
        let content = header.prefix(headerLength - 4)
        guard header.count == headerLength, header.starts(with: magic),
            checksum(of: content).elementsEqual(header.suffix(4))
        else { return nil }
        let id = POSIXPath(content.suffix(POSIXPath.randomPartLength))
        return id.isRandomPart ? id : nil
    }

    private static func checksum(of bytes: some Collection<UInt8>) -> [UInt8] {
        var checksum = CRC32C()
        checksum.update(Array(bytes))
        return checksum.value.littleEndianBytes
    }

    func close() {
        // Unlocked first: a child process that is being started may hold a copy of the descriptor until it executes.
        unlock()
        fileSystem.discard(descriptor)
    }

    // MARK: Owner

    /// Locks the file; false if another owner has locked it.
    func lock() throws(FileSystemError) -> Bool { try fileSystem.tryLock(descriptor, .exclusive) }

    func unlock() {
        do { try fileSystem.lock(descriptor, .unlocked, waiting: false) } catch _ {}
    }

    /// Whether the owner with a token was the last one.
    func hasToken(_ token: UInt64) throws(FileSystemError) -> Bool {
        try fileSystem.readBytes(of: descriptor, at: Self.tokenOffset, count: 8) == Self.bytes(of: token)
    }

    func writeToken(_ token: UInt64) throws(FileSystemError) {
        try fileSystem.writeBytes(Self.bytes(of: token), to: descriptor, at: Self.tokenOffset)
    }

    private static func bytes(of token: UInt64) -> [UInt8] { token.littleEndianBytes }

    /// The name of a slot's file.
    func name(_ prefix: String, slot: Int) -> POSIXPath {
        POSIXPath(Array(prefix.utf8) + id.bytes + Array("-\(slot)".utf8))
    }

    // MARK: Slots

    /// Records the directory in which the file of a slot is about to be created.
    func record(_ directory: POSIXPath, slot: Int) throws(FileSystemError) {
        let length = UInt16(truncatingIfNeeded: directory.count)
        let content = [UInt8(truncatingIfNeeded: length), UInt8(length >> 8)] + directory.bytes
        guard content.count + 4 <= Self.slotSize, slot < Self.maximumSlotCount else {
            throw FileSystemError(.write, .fileNameTooLong, path: directory)
        }
        try fileSystem.writeBytes(Self.checksum(of: content) + content, to: descriptor, at: Self.offset(of: slot))
    }

    /// Makes the journal durable.
    func synchronize() throws(FileSystemError) {
        try fileSystem.synchronize(descriptor, .data)
    }

    /// The recorded directories, by slot; nil for an invalid slot.
    func directories() throws(FileSystemError) -> [POSIXPath?] {
        let size = try fileSystem.status(of: .descriptor(descriptor)).sizeInBytes
        var found: [POSIXPath?] = []
        while Self.offset(of: found.count) < size, found.count < Self.maximumSlotCount {
            found.append(try directory(ofSlot: found.count))
        }
        return found
    }

    /// The recorded directory of a slot; nil if the slot is invalid.
    func directory(ofSlot slot: Int) throws(FileSystemError) -> POSIXPath? {
        guard (0..<Self.maximumSlotCount).contains(slot) else { return nil }
        return Self.directory(
            in: try fileSystem.readBytes(of: descriptor, at: Self.offset(of: slot), count: Self.slotSize))
    }

    private static func offset(of slot: Int) -> Int64 { Int64(slotsOffset + slot * slotSize) }

    private static func directory(in slot: [UInt8]) -> POSIXPath? {
        guard slot.count >= 6 else { return nil }
        let length = Int(slot[4]) | Int(slot[5]) << 8
        guard length + 6 <= slot.count, checksum(of: slot[4..<length + 6]).elementsEqual(slot[..<4]) else { return nil }
        let directory = POSIXPath(slot[6..<length + 6])
        return directory.isEmpty || directory.isKey ? directory : nil
    }
}

extension Errno {
    /// Whether opening a name failed because the file is not regular.
    var isForeign: Bool {
        self == .tooManySymbolicLinkLevels || self == .isDirectory || self == .noSuchAddressOrDevice
            || self == .operationNotSupportedByDevice
    }
}
