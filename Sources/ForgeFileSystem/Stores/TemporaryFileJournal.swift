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
