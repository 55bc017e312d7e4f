import Synchronization
import SystemPackage

/// The names of one store object's temporary files and trash, recorded so that they can be removed if the process dies.
///
/// The journal is a file in the store's root, locked during the lifetime of the object (``TemporaryFileJournalFile``).
/// It contains a random number, which is part of each name, and for each slot the directory in which a file of that
/// slot was last created. So a writer that finds the file unlocked knows exactly which names its owner may have left,
/// and checks no others. The directory is recorded before the name is created. The record is not flushed for temporary
/// files: after a power cut an unrecorded one may exist, and is kept.
final class TemporaryFileJournal: Sendable {
    private struct Slot {
        /// Relative to the root, empty for the root itself; nil if the recorded directory is unknown.
        var directory: POSIXPath?
        var isFlushed = false
        /// Whether the name is in use, or a file with it is kept.
        var isTaken = false
    }

    private let fileSystem: any POSIXFileSystem
    private let file: TemporaryFileJournalFile
    private let slots: Mutex<[Slot]>

    /// The unique part of the names.
    var id: POSIXPath { file.id }

    /// Takes over or creates a journal, and removes the files left by the owners of all unlocked journals.
    init(at root: Descriptor, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        self.fileSystem = fileSystem
        var own: (file: TemporaryFileJournalFile, slots: [Slot])?
        do throws(FileSystemError) {
            for number in 0..<TemporaryFileJournalFile.maximumCount {
                let opening = try TemporaryFileJournalFile.open(number, creating: own == nil, at: root, on: fileSystem)
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
        file = own.file
        slots = Mutex(own.slots)
    }

    deinit {
        file.close()
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
        let (number, slot) = takeSlot(for: path)
        let name = Name(path: file.name(prefix, slot: number), slot: number)
        do {
            if slot.directory != path { try file.record(path, slot: number) }
            slots.withLock { $0[number].directory = path }
            if isDurable, slot.directory != path || !slot.isFlushed {
                try file.synchronize()
                slots.withLock { $0[number].isFlushed = true }
            }
        } catch {
            giveBackIfFree(name, at: directory)
            throw error
        }
        return name
    }

    /// Makes the records of names durable, with one flush.
    func synchronize(_ names: [Name]) throws(FileSystemError) {
        guard slots.withLock({ slots in names.contains { !slots[$0.slot].isFlushed } }) else { return }
        try file.synchronize()
        slots.withLock { slots in
            for name in names { slots[name.slot].isFlushed = true }
        }
    }

    /// Releases a name whose file was renamed or removed.
    func giveBack(_ name: Name) {
        slots.withLock { $0[name.slot].isTaken = false }
    }

    /// Releases a name unless its file still exists: then it is not reused, so that the journal still names the file.
    func giveBackIfFree(_ name: Name, at directory: Descriptor) {
        if isFree(name.path, at: directory) { giveBack(name) }
    }

    private func takeSlot(for path: POSIXPath) -> (number: Int, Slot) {
        slots.withLock { slots in
            let known = slots.firstIndex { !$0.isTaken && $0.directory == path }
            let number = known ?? slots.firstIndex { !$0.isTaken } ?? slots.count
            if number == slots.count { slots.append(Slot()) }
            let slot = slots[number]
            slots[number].isTaken = true
            if slot.directory != path {
                slots[number].directory = nil
                slots[number].isFlushed = false
            }
            return (number, slot)
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
