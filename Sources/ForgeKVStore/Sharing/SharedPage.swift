import CForgeKVStore
import ForgeFileSystem
import Synchronization
import SystemPackage

// Memory safety: The page is mapped for the lifetime of this object. Its words lie at multiples of eight within it,
// and are loaded and stored atomically, because other processes change them.

extension POSIXPath {
    /// The name of the file in which processes that share a store tell one another of it.
    static let sharedName: POSIXPath = "#shared"
}

/// The file `#shared` of a store that this process has open together with others.
///
/// It is mapped where the memory is the system's own, so that a look costs one load, and read elsewhere. It is written
/// to in place and never cut short, replaced or removed, because others may have it mapped.
@safe
final class SharedPage: Sendable {
    private let fileSystem: any POSIXFileSystem
    private let descriptor: Mutex<Descriptor?>
    private let file: Descriptor
    private let mapping: FileMapping?

    /// Wakes the processes that observe the store; nil where the system has no way.
    private let signal: (any FileSignal)?

    /// The number of observations of this process.
    private let observationCount = Mutex(0)
    private let fork = ForkDetector()
    private let processes: ProcessTable
    private let inode: [UInt8]
    private let slot: Atomic<Int>

    /// Where the word stands in memory, which is only loaded and stored atomically; nil where it has to be read.
    private nonisolated(unsafe) let address: UnsafeMutableRawPointer?

    /// Opens the page of the store in a directory, initializes it if no running process has it open, and enters this
    /// process into a slot. The caller holds the lock of the store.
    init(
        at directory: Descriptor, on fileSystem: any POSIXFileSystem, _ processes: ProcessTable
    ) throws(FileSystemError) {
        let file = try fileSystem.openStoreFile(.sharedName, at: directory)
        let isNew: Bool
        do throws(FileSystemError) {
            let place: (slot: Int, isNew: Bool)
            do throws(FileSystemError) {
                place = try Self.register(in: file, on: fileSystem, processes)
            } catch {
                throw error.named(.sharedName)
            }
            slot = Atomic(place.slot)
            isNew = place.isNew
            inode = SharedPageContent.inodeBytes(try fileSystem.status(of: .descriptor(file)).inode)
            mapping = try Self.map(file, on: fileSystem)
            if let mapping {
                signal = mapping.makeSignal(at: SharedPageContent.signalOffset)
            } else {
                signal = try fileSystem.makeSignal(of: file)
            }
        } catch {
            fileSystem.discard(file)
            throw error
        }
        unsafe address = mapping?.withUnsafeBytes(0..<SharedPageContent.size) { bytes in
            unsafe UnsafeMutableRawPointer(mutating: bytes.baseAddress).map { unsafe $0 + SharedPageContent.wordOffset }
        }
        self.file = file
        self.fileSystem = fileSystem
        self.processes = processes
        descriptor = Mutex(file)
        // Of a process that had the slot before.
        markObserver(false)
        // If another program has removed running processes from the page, they enter themselves again.
        if isNew { signal?.send() }
    }

    /// Puts a process into a slot and returns which, and whether it is the only one in the page.
    private static func register(
        in file: Descriptor, on fileSystem: any POSIXFileSystem, _ processes: ProcessTable
    ) throws(FileSystemError) -> (slot: Int, isNew: Bool) {
        let found = try content(of: file, on: fileSystem)
        if !found.running(processes).isEmpty {
            guard let slot = found.freeSlot(processes) else { throw FileSystemError(.open, .noLocks) }
            // Nothing but the slot: others may be clearing theirs.
            try fileSystem.writeBytes(
                SharedPageContent.slot(processes.own), to: file, at: Int64(SharedPageContent.offset(ofSlot: slot)))
            return (slot, false)
        }
        var content = SharedPageContent(inode: try fileSystem.status(of: .descriptor(file)).inode)
        content.put(processes.own, inSlot: 0)
        try fileSystem.writeBytes(content.bytes, to: file, at: 0)
        return (0, true)
    }

    private static func content(
        of file: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> SharedPageContent {
        SharedPageContent(
            try fileSystem.readBytes(of: file, at: 0, count: SharedPageContent.size),
            inode: try fileSystem.status(of: .descriptor(file)).inode)
    }

    /// Maps the page; nil where it has to be read. Memory that is not the system's own cannot be read and stored into
    /// by two threads at once.
    private static func map(
        _ file: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> FileMapping? {
        guard fileSystem is SystemFileSystem else { return nil }
        do throws(FileSystemError) {
            return try fileSystem.map(file, at: 0, count: SharedPageContent.size)
        } catch  where [.operationNotSupportedByDevice, .notSupported, .invalidArgument].contains(error.errno) {
            return nil
        }
    }

    /// Takes this process out of its slot. No other thread may be using the page, nor use it later: publishing would
    /// put the process into a slot again.
    func leave() {
        // If it fails, the slot is free when this process has ended.
        do {
            try write([UInt8](repeating: 0, count: SharedPageContent.slotSize), at: slotOffset)
        } catch _ {}
    }

    /// Closes the file. In a forked child the slot is the parent's.
    func close() {
        let file = descriptor.withLock { descriptor in
            defer { descriptor = nil }
            return descriptor
        }
        if let file { fileSystem.discard(file) }
    }

    private var slotOffset: Int { SharedPageContent.offset(ofSlot: slot.load(ordering: .relaxed)) }
}

// MARK: The word

extension SharedPage {
    /// Whether the word is surely this one; a look at memory, and so not sure where the file is not mapped.
    @inline(__always)
    func isKnownToHold(_ word: UInt64) -> Bool {
        guard let address = unsafe address else { return false }
        return unsafe UInt64(littleEndian: forge_load_word(address)) == word
    }

    /// The log-state word last published by any process; 0 if another program has cut the page short.
    func word() throws(FileSystemError) -> UInt64 {
        if let address = unsafe address, let mapping {
            let word = unsafe UInt64(littleEndian: forge_load_word(address))
            guard mapping.hasFaulted else { return word }
            try restoreSize()
            return unsafe UInt64(littleEndian: forge_load_word(address))
        }
        let bytes = try read(SharedPageContent.wordOffset..<SharedPageContent.wordOffset + 8)
        return bytes.span.integer(at: 0, as: UInt64.self)
    }

    /// Publishes a state of the log, and repairs the page if it is damaged. The caller holds the lock of the store.
    func publish(_ word: UInt64) throws(FileSystemError) {
        if try !isWhole() { try mend() }
        guard try self.word() != word else { return }
        if let address = unsafe address {
            unsafe forge_store_word(address, word.littleEndian)
            if hasOtherObservers { signal?.send() }
        } else {
            var bytes: [UInt8] = []
            bytes.append(integer: word)
            try write(bytes, at: SharedPageContent.wordOffset)
            signal?.send()
        }
    }

    /// Which log has replaced which.
    func replacement() throws(FileSystemError) -> SharedPageContent.Replacement {
        let start = SharedPageContent.replacementOffset
        let shift = SharedPageContent.shiftOffset
        return SharedPageContent.Replacement(
            try read(start..<start + SharedPageContent.Replacement.size), shift: try read(shift..<shift + 8))
    }

    /// Records that a log is about to replace another one.
    func announce(_ replacement: SharedPageContent.Replacement) throws(FileSystemError) {
        var shift: [UInt8] = []
        shift.append(integer: replacement.shift)
        try write(shift, at: SharedPageContent.shiftOffset)
        try write(replacement.bytes, at: SharedPageContent.replacementOffset)
    }

    /// Records that this process compacts the log; returns false if another running one does. A hint: two processes that
    /// ask at once may both begin, and then the second to end gives up.
    func claimCompaction() throws(FileSystemError) -> Bool {
        let content = try Self.content(of: file, on: fileSystem)
        let own = slot.load(ordering: .relaxed)
        if let other = content.compactor, other != own, let process = content.process(inSlot: other),
            processes.isRunning(process)
        {
            return false
        }
        try write(SharedPageContent.compactor(own), at: SharedPageContent.compactorOffset)
        return true
    }

    /// Records that this process compacts the log no more.
    func endCompaction() throws(FileSystemError) {
        guard try Self.content(of: file, on: fileSystem).compactor == slot.load(ordering: .relaxed) else { return }
        try write(SharedPageContent.compactor(nil), at: SharedPageContent.compactorOffset)
    }

    /// Whether no other process has the store open.
    func isAlone() throws(FileSystemError) -> Bool { try others().isEmpty }

    /// The other running processes that share the store.
    func others() throws(FileSystemError) -> [ProcessIdentity] {
        try Self.content(of: file, on: fileSystem).running(processes, without: slot.load(ordering: .relaxed))
    }

    /// Gives a file that another program has made shorter its size back, with zeros, and maps it again.
    @inline(never)
    private func restoreSize() throws(FileSystemError) {
        let isShort = try fileSystem.status(of: .descriptor(file)).sizeInBytes < Int64(SharedPageContent.size)
        if isShort { try fileSystem.truncate(.descriptor(file), to: Int64(SharedPageContent.size)) }
        let hasFaulted = mapping?.hasFaulted == true
        if hasFaulted { try mapping?.restore(from: file, at: 0) }
        // The processes that observe the store mark it again.
        if isShort || hasFaulted { signal?.send() }
    }

    /// Whether the page begins as it must, and this process is in its slot.
    func isWhole() throws(FileSystemError) -> Bool {
        let (signature, own) = (SharedPageContent.signature, SharedPageContent.slot(processes.own))
        let slot = slotOffset..<slotOffset + SharedPageContent.slotSize
        let inodeRange = SharedPageContent.inodeOffset..<SharedPageContent.inodeOffset + inode.count
        guard let mapping else {
            let bytes = try read(0..<slot.upperBound)
            return bytes.starts(with: signature) && bytes[inodeRange].elementsEqual(inode)
                && bytes.dropFirst(slot.lowerBound).elementsEqual(own)
        }
        return unsafe mapping.withUnsafeBytes(0..<signature.count) { unsafe $0.elementsEqual(signature) }
            && mapping.withUnsafeBytes(inodeRange) { unsafe $0.elementsEqual(inode) }
            && mapping.withUnsafeBytes(slot) { unsafe $0.elementsEqual(own) }
    }

    /// Puts back what the page begins with, and this process into a slot.
    @inline(never)
    private func mend() throws(FileSystemError) {
        try restoreSize()
        let own = slot.load(ordering: .relaxed)
        // A slot that is left with this process in it would count as another use of the store. It is read as it is: a
        // page whose inode number is damaged counts as empty.
        let isKept = try read(slotOffset..<slotOffset + SharedPageContent.slotSize)
            .elementsEqual(SharedPageContent.slot(processes.own))
        guard let place = try isKept ? own : Self.content(of: file, on: fileSystem).freeSlot(processes) else {
            throw FileSystemError(.write, .noLocks, path: .sharedName)
        }
        try write(SharedPageContent.signature, at: 0)
        try write(inode, at: SharedPageContent.inodeOffset)
        markObserver(false)
        slot.store(place, ordering: .relaxed)
        try write(SharedPageContent.slot(processes.own), at: slotOffset)
        signal?.send()
    }

    private func read(_ range: Range<Int>) throws(FileSystemError) -> [UInt8] {
        if let mapping { return unsafe mapping.withUnsafeBytes(range) { unsafe Array($0) } }
        let bytes = try fileSystem.readBytes(of: file, at: Int64(range.lowerBound), count: range.count)
        // Another program has truncated it; what was never written is zero.
        return bytes + [UInt8](repeating: 0, count: range.count - bytes.count)
    }

    private func write(_ bytes: [UInt8], at offset: Int) throws(FileSystemError) {
        if let mapping { return unsafe bytes.withUnsafeBytes { unsafe mapping.store($0, at: offset) } }
        try fileSystem.writeBytes(bytes, to: file, at: Int64(offset))
    }
}

// MARK: Observing

extension SharedPage {
    /// Calls `body` once, and again after each state that another process publishes; see ``FileSignal/observe(_:)``.
    ///
    /// A process that is killed after it has published a state and before it has sent the signal leaves that to the next
    /// one that publishes. Where the system has no signals, `body` is only called after the times that it returns.
    ///
    /// - Parameter body: Gets whether signals reach it.
    /// - Returns: The observation, which the caller ends with ``endObserving(_:)``.
    func observe(
        _ body: @escaping @Sendable (_ isSignalled: Bool) -> Duration?
    ) -> any FileSignalObservation {
        observationCount.withLock { count in
            count += 1
            markObserver(true)
        }
        guard let signal else { return PollingSignal().observe { body(false) } }
        do throws(FileSystemError) {
            return try signal.observe { [weak self] in
                // Another program may have cleared the mark. It is set before `body` looks at the word: a process that
                // does not see it has published before.
                self?.observationCount.withLock { count in
                    if count > 0 { self?.markObserver(true) }
                }
                return body(true)
            }
        } catch _ {
            return PollingSignal().observe { body(false) }
        }
    }

    /// Ends an observation. In a forked child its thread and the mark are the parent's.
    func endObserving(_ observation: any FileSignalObservation) {
        guard !fork.isForkedChild else { return }
        observationCount.withLock { count in
            count -= 1
            if count == 0 { markObserver(false) }
        }
        // A page that was cut short would not wake the observation.
        if descriptor.withLock({ $0 != nil }) {
            do throws(FileSystemError) { _ = try word() } catch _ {}
        }
        observation.cancel()
    }

    /// Records in the page whether this process observes the store.
    private func markObserver(_ isObserver: Bool) {
        guard let address = unsafe address else { return }
        unsafe forge_set_bit(observers(address), slot.load(ordering: .relaxed), isObserver ? 1 : 0)
    }

    /// Whether another process observes the store, or has ended while it did.
    private var hasOtherObservers: Bool {
        guard let address = unsafe address else { return false }
        let count = SharedPageContent.observersSize / 8
        return unsafe forge_has_other_bit(observers(address), count, slot.load(ordering: .relaxed)) != 0
    }

    private func observers(_ word: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        unsafe word + (SharedPageContent.observersOffset - SharedPageContent.wordOffset)
    }
}

// MARK: From outside

extension SharedPage {
    /// The number of a process that has the store in a directory open together with others; nil if there is none.
    static func user(
        at directory: Descriptor, on fileSystem: any POSIXFileSystem, _ processes: ProcessTable
    ) throws(FileSystemError) -> Int32? {
        let file: Descriptor
        do throws(FileSystemError) {
            file = try fileSystem.open(
                .sharedName, at: directory, .readOnly, options: [.noFollow, .nonBlocking], permissions: [])
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
        do throws(FileSystemError) {
            let content = try fileSystem.closing(file) { () throws(FileSystemError) in
                try Self.content(of: file, on: fileSystem)
            }
            return content.running(processes).first?.id
        } catch {
            throw error.named(.sharedName)
        }
    }
}
