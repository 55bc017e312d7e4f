import CForgeKVStore
import ForgeFileSystem
import Synchronization
import SystemPackage

extension POSIXPath {
    /// The name of the file in which processes that share a store tell one another of it.
    static let sharedName: POSIXPath = "#shared"
}

/// The file `#shared` of a store that this process has open together with others.
///
/// It is mapped where the memory is the system's own, so that a look costs one load, and read elsewhere. It is written
/// to in place and never cut short, replaced or removed, because others may have it mapped.
final class SharedPage: Sendable {
    private let fileSystem: any POSIXFileSystem
    private let descriptor: Mutex<Descriptor?>
    private let file: Descriptor
    private let mapping: FileMapping?
    private let processes: ProcessTable
    private let inode: [UInt8]
    private let slot: Atomic<Int>
    private let hasLeft = Atomic(false)

    /// Where the word stands in memory, which is only loaded and stored atomically; nil where it has to be read.
    private nonisolated(unsafe) let address: UnsafeMutableRawPointer?

    /// Opens the page of the store in a directory, initializes it if no running process has it open, and enters this
    /// process into a slot. The caller holds the lock of the store.
    init(
        at directory: Descriptor, on fileSystem: any POSIXFileSystem, _ processes: ProcessTable
    ) throws(FileSystemError) {
        let file = try fileSystem.openStoreFile(.sharedName, at: directory)
        do throws(FileSystemError) {
            slot = Atomic(
                try fileSystem.withPathInErrors(.sharedName) { () throws(FileSystemError) in
                    try Self.register(in: file, on: fileSystem, processes)
                })
            inode = SharedPageContent.inodeBytes(try fileSystem.status(of: .descriptor(file)).inode)
            mapping = try Self.map(file, on: fileSystem)
        } catch {
            fileSystem.discard(file)
            throw error
        }
        address = mapping?.withUnsafeBytes(0..<SharedPageContent.size) { bytes in
            UnsafeMutableRawPointer(mutating: bytes.baseAddress).map { $0 + SharedPageContent.wordOffset }
        }
        self.file = file
        self.fileSystem = fileSystem
        self.processes = processes
        descriptor = Mutex(file)
    }

    /// Puts a process into a slot and returns which.
    private static func register(
        in file: Descriptor, on fileSystem: any POSIXFileSystem, _ processes: ProcessTable
    ) throws(FileSystemError) -> Int {
        let found = try content(of: file, on: fileSystem)
        if !found.running(processes).isEmpty {
            guard let slot = found.freeSlot(processes) else { throw FileSystemError(.open, .noLocks) }
            // Nothing but the slot: others may be clearing theirs.
            try fileSystem.writeBytes(
                SharedPageContent.slot(processes.own), to: file, at: Int64(SharedPageContent.offset(ofSlot: slot)))
            return slot
        }
        var content = SharedPageContent(inode: try fileSystem.status(of: .descriptor(file)).inode)
        content.put(processes.own, inSlot: 0)
        try fileSystem.writeBytes(content.bytes, to: file, at: 0)
        return 0
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

    /// Takes this process out of its slot.
    func leave() {
        guard !hasLeft.exchange(true, ordering: .relaxed) else { return }
        // If it fails, the slot is free when this process has ended.
        do {
            try write([UInt8](repeating: 0, count: SharedPageContent.slotSize), at: slotOffset)
        } catch _ {}
    }

    /// Takes this process out of its slot and closes the file.
    func close() {
        leave()
        abandon()
    }

    /// Closes the file. In a forked child the slot is the parent's.
    func abandon() {
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
        guard let address else { return false }
        return UInt64(littleEndian: forge_load_word(address)) == word
    }

    /// The log-state word last published by any process; 0 if another program has cut the page short.
    func word() throws(FileSystemError) -> UInt64 {
        if let address, let mapping {
            let word = UInt64(littleEndian: forge_load_word(address))
            guard mapping.hasFaulted else { return word }
            try restoreSize()
            return UInt64(littleEndian: forge_load_word(address))
        }
        let bytes = try read(SharedPageContent.wordOffset..<SharedPageContent.wordOffset + 8)
        return bytes.withUnsafeBytes { $0.integer(at: 0, as: UInt64.self) }
    }

    /// Publishes a state of the log, and repairs the page if it is damaged. The caller holds the lock of the store.
    func publish(_ word: UInt64) throws(FileSystemError) {
        if try !isWhole() { try mend() }
        if let address { return forge_store_word(address, word.littleEndian) }
        guard try self.word() != word else { return }
        var bytes: [UInt8] = []
        bytes.append(integer: word)
        try write(bytes, at: SharedPageContent.wordOffset)
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
        if try fileSystem.status(of: .descriptor(file)).sizeInBytes < Int64(SharedPageContent.size) {
            try fileSystem.truncate(.descriptor(file), to: Int64(SharedPageContent.size))
        }
        if let mapping, mapping.hasFaulted { try mapping.restore(from: file, at: 0) }
    }

    private func isWhole() throws(FileSystemError) -> Bool {
        let (signature, own) = (SharedPageContent.signature, SharedPageContent.slot(processes.own))
        let slot = slotOffset..<slotOffset + SharedPageContent.slotSize
        let inodeRange = SharedPageContent.inodeOffset..<SharedPageContent.inodeOffset + inode.count
        guard let mapping else {
            let bytes = try read(0..<slot.upperBound)
            return bytes.starts(with: signature) && bytes[inodeRange].elementsEqual(inode)
                && bytes.dropFirst(slot.lowerBound).elementsEqual(own)
        }
        return mapping.withUnsafeBytes(0..<signature.count) { $0.elementsEqual(signature) }
            && mapping.withUnsafeBytes(inodeRange) { $0.elementsEqual(inode) }
            && mapping.withUnsafeBytes(slot) { $0.elementsEqual(own) }
    }

    /// Puts back what the page begins with, and this process into a slot.
    @inline(never)
    private func mend() throws(FileSystemError) {
        try restoreSize()
        guard let free = try Self.content(of: file, on: fileSystem).freeSlot(processes) else {
            throw FileSystemError(.write, .noLocks, path: .sharedName)
        }
        try write(SharedPageContent.signature, at: 0)
        try write(inode, at: SharedPageContent.inodeOffset)
        slot.store(free, ordering: .relaxed)
        try write(SharedPageContent.slot(processes.own), at: slotOffset)
    }

    private func read(_ range: Range<Int>) throws(FileSystemError) -> [UInt8] {
        if let mapping { return mapping.withUnsafeBytes(range) { Array($0) } }
        let bytes = try fileSystem.readBytes(of: file, at: Int64(range.lowerBound), count: range.count)
        // Another program has truncated it; what was never written is zero.
        return bytes + [UInt8](repeating: 0, count: range.count - bytes.count)
    }

    private func write(_ bytes: [UInt8], at offset: Int) throws(FileSystemError) {
        if let mapping { return bytes.withUnsafeBytes { mapping.store($0, at: offset) } }
        try fileSystem.writeBytes(bytes, to: file, at: Int64(offset))
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
        let content = try fileSystem.withPathInErrors(.sharedName) { () throws(FileSystemError) -> SharedPageContent in
            try fileSystem.closing(file) { () throws(FileSystemError) in try Self.content(of: file, on: fileSystem) }
        }
        return content.running(processes).first?.id
    }
}
