import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage

/// A file system in memory with one defect, to test that the corresponding check fails.
struct BrokenFileSystem: InterceptingFileSystem {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case missesRenames = "names that appear and disappear are reported in the order of the changes"
        case missesExchanges = "an exchange is reported as both names going and coming"
        case numbersAllAlike = "a watch has the entries of its directories, on one level and under any path"
        case reportsEveryWrite = "the close of a file that was open for writing is reported where it is asked for"
        case reportsAnotherName =
            "a file with several names is reported as written under the name by which it was opened"
        case numbersTwice = "a directory that is watched again has the same number, and the last request counts"
        case ignoresUnwatch = "a directory is not reported after unwatch, other directories are"
        case usesNumbersAgain = "the watch of a directory ends with its removal, and its number is not used again"
        case cancelsTwice = "a cancelled watch reports nothing more, and says so once"
        case hidesFromTheSecond = "two watches of one directory have the same events"
        case watchesTheEnded = "the end of a process ends its watches"
        case watchesFiles = "a file and an invalid descriptor are not watched"
        case watchesUnreadable = "a directory without read permission is not watched"
        case watchesOneMore = "no more directories are watched than the limit, until one is free"
        case hidesLosses = "events above the limit are lost, which is reported, and later ones are reported again"
        case signalsCancelled =
            "a signal of a file reaches every observer of the file until it is cancelled, under each name"
        case forgetsTheTime = "an observer of a signal is called again after the time that it returns"
        case signalsTheEnded = "the end of a process ends its observers of a signal, and no others"
        case hasNoSignal = "an invalid descriptor has no signal"
        case hidesReadLinks = "an access is noted unless the last one is newer than the last change"
        case neverEnds = "the end of a process closes its files and releases their locks"
        case sharesDescriptors = "processes do not share descriptors, and share the files"
        case neverWaits = "a process that waits for a lock gets it when the holder ends"
        case refusesTheRestOfABlock =
            "a block that is allocated can be filled on a full device, and a write across its end is not complete"
        case reservesNothing = "reserved space can be written on a full device"
        case keepsABlock = "the space of truncated, replaced and removed files is free again"
        case opensForeignSockets = "a socket of a third user is not opened for creation in a sticky directory"
        case copiesTheTime = "a call that changes a file's content, size or attributes changes its change time"
        case truncatesForCreation =
            "an existing file is truncated by an open only if that is asked for, and has new times then"
        case countsToFour = "a process owns the files that it creates, and has random bits"
        case reservesTheStart = "each of several reserved ranges takes its space, and takes it once"
        case countsEveryWrite = "a block that is overwritten takes no more space"
        case skipsTheLastByte = "a search for data after holes skips none"
        case mapsWholePages = "the last byte of a mapped file is stored, wherever in a page it is"
        case findsDataBehindTheEnd = "there is no data at the end of a file, or behind it"
        case endsAnEmptyFIFO = "a FIFO whose data was read to the last byte has not ended while a writer has it open"
        case synchronizesFIFOs = "a FIFO cannot be synchronised"
        case cutsNewPaths = "a new path of a rename or link one byte longer than the limit is refused"
        case unlinksLongPaths = "every call refuses an empty path, and one that is too long"
        case readsFIFOs = "a FIFO has no extended attributes, even for a user who may only write to it"
        case makesFilesPrivate =
            "a file written by URL keeps its permissions without the set-user-ID bit, and a new one is private"
        case ignoresTheSlash = "an exchange accepts a slash after the name of a directory, but of no file"
        case ignoresForeignGroups = "a user gives an own file the group that it has or one of their own, but no other"
        case keepsOwnBits = "a user who changes the group of an own file clears its set-user-ID bit"
        case clearsForeignBits = "setting neither owner nor group of a file of another user leaves its bits"
        case allocatesFIFOs = "no space is reserved for a FIFO"
        case touchesForNoTime = "setting no time changes nothing"
        case movesMountPoints = "a mount point is not renamed, replaced or removed"
        case storesWithoutSpace = "a store into a hole of a mapped file faults on a full device"
        case writesOneMore = "a file has the maximum size at most"
        case keepsBitsInOpen = "a user who truncates an own file clears its set-user-ID bit, in an open too"
        case opensOneMore = "a process at its limit of open files cannot open more"
        case countsOneName = "the brief status of a file has the inode, the size and the number of links of its status"
        case leavesOpen = "the calls that are composed of others close what they open, also when they fail"
        case makesDirectoryNodes = "a directory is not created as a node"
    }

    private(set) var base: InMemoryFileSystem
    let defect: Defect?
    private let calls = CallCounts()

    var forwarded: any POSIXFileSystem { base }

    func intercept(_ call: InterceptedCall) throws(FileSystemError) {}

    /// A file system with a defect or, as the control, without any, in the condition that its check needs.
    static func subject(_ defect: Defect?, for check: ConformanceCheck<FileSystemUnderTest>) throws
        -> FileSystemUnderTest
    {
        var options = InMemoryFileSystem.Options()
        if check.needs.contains(.limitedSpace) { options.quota = .init(sizeInBytes: 100_000, inodeCount: 64) }
        if check.needs.contains(.limitedDescriptors) {
            options.maximumOpenFileCount = defect == .opensOneMore ? 11 : 10
        }
        if check.needs.contains(.fileSizeLimit) {
            options.maximumFileSizeInBytes = defect == .writesOneMore ? 1_001 : 1_000
        }
        let isLimited = check.needs.contains(.watchLimits)
        if isLimited {
            options.maximumWatchCount = defect == .watchesOneMore ? 9 : 8
            options.maximumQueuedEventCount = 8
        }
        options.isCaseInsensitive = check.needs.contains(.caseInsensitivity)
        options.isNormalisationInsensitive = check.needs.contains(.normalisationInsensitivity)
        let base = InMemoryFileSystem(options: options)
        try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        let broken = BrokenFileSystem(base: base, defect: defect)
        var subject = FileSystemUnderTest(broken, root: "/root")
        subject.makeReadOnly = { try base.setReadOnly(true) }
        if check.needs.contains(.secondDevice) {
            try base.createDirectory("/other")
            try base.mount(at: "/other")
            subject.otherDevice = "/other"
        }
        subject.asUser = { user, group in
            BrokenFileSystem(base: base.process(user: user, group: group), defect: defect)
        }
        subject.startProcess = {
            let process = defect == .sharesDescriptors ? base : base.process()
            // Shares the observers of signals.
            var other = broken
            other.base = process
            let end: @Sendable () -> Void = { if defect != .neverEnds { process.endProcess() } }
            switch defect {
            case .signalsTheEnded: return (other, end)
            case .watchesTheEnded: return (broken, end)
            default: return (process, end)
            }
        }
        subject.maximumOpenFileCount = check.needs.contains(.limitedDescriptors) ? 10 : nil
        subject.maximumFileSizeInBytes = check.needs.contains(.fileSizeLimit) ? 1_000 : nil
        subject.maximumWatchCount = isLimited ? 8 : nil
        subject.maximumQueuedEventCount = isLimited ? 8 : nil
        return subject
    }

    // MARK: Files

    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        var options = options
        if defect == .truncatesForCreation, options.contains(.create) { options.insert(.truncate) }
        do throws(FileSystemError) {
            var before: FilePermissions?
            if defect == .keepsBitsInOpen, options == .truncate {
                before = try base.status(of: .path(path, at: directory)).permissions
            }
            let file = try base.open(
                path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
            if let before { try base.setPermissions(before, of: .descriptor(file)) }
            return file
        } catch  where defect == .opensForeignSockets && error.errno == .permissionDenied {
            throw FileSystemError(.open, .noSuchAddressOrDevice, path: path)
        }
    }

    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        if defect == .refusesTheRestOfABlock, offset == 7 { throw FileSystemError(.write, .noSpace) }
        if defect == .countsEveryWrite { _ = calls.next() }
        return try base.write(descriptor, from: buffer, at: offset)
    }

    func write(_ data: Data, to url: URL) throws {
        try base.write(data, to: url)
        if defect == .leavesOpen { _ = try base.open(POSIXPath(url)) }
        if defect == .makesFilesPrivate { try base.setPermissions(.ownerReadWrite, of: .path(POSIXPath(url))) }
    }

    func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        do throws(FileSystemError) {
            let count = try base.read(descriptor, into: buffer, at: offset)
            calls.lastReadWasFull = count == buffer.count
            return count
        } catch  where defect == .endsAnEmptyFIFO && calls.lastReadWasFull {
            return 0
        }
    }

    func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        do throws(FileSystemError) {
            let found = try base.seek(descriptor, to: offset, from: origin)
            guard defect == .skipsTheLastByte, origin == .data, offset > 0, offset % 4096 == 0 else { return found }
            return try base.seek(descriptor, to: max(offset, 1 << 20), from: .data)
        } catch  where defect == .findsDataBehindTheEnd && error.errno == .noSuchAddressOrDevice {
            return offset
        }
    }

    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        do throws(FileSystemError) {
            try base.synchronize(descriptor, level)
        } catch  where defect == .synchronizesFIFOs && error.errno == .invalidArgument {}
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        if defect == .storesWithoutSpace { try base.setQuota(.init()) }
        let mapping = try base.map(descriptor, at: offset, count: count)
        if defect == .mapsWholePages, count % 65_536 == 1 {
            try base.truncate(.descriptor(descriptor), to: Int64(count) - 1)
        }
        return mapping
    }

    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try base.truncate(file, to: defect == .keepsABlock && sizeInBytes == 0 ? 1 : sizeInBytes)
    }

    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        guard defect == .reservesNothing || defect == .reservesTheStart && offset > 0 else {
            do throws(FileSystemError) {
                return try base.allocate(descriptor, at: offset, length: length)
            } catch  where defect == .allocatesFIFOs && error.errno == .illegalSeek { return }
        }
        try base.truncate(.descriptor(descriptor), to: offset + length)
    }

    func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        var status = try base.status(of: file)
        if defect == .copiesTheTime { status.changed = status.modified }
        if defect == .countsEveryWrite { status.allocatedSizeInBytes = Int64(calls.count * 4096) }
        return status
    }

    func briefStatus(of file: FileReference) throws(FileSystemError) -> BriefFileStatus {
        var status = BriefFileStatus(try base.status(of: file))
        if defect == .countsOneName { status.linkCount = 1 }
        return status
    }

    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        do throws(FileSystemError) {
            let permissions = defect == .keepsOwnBits ? try base.status(of: file).permissions : nil
            try base.setOwner(owner, group: group, of: file)
            if let permissions { try base.setPermissions(permissions, of: file) }
        } catch  where defect == .clearsForeignBits {
            let (root, permissions) = (base.process(user: UserID(0)), try base.status(of: file).permissions)
            try root.setPermissions(permissions.subtracting([.setUserID, .setGroupID]), of: file)
        } catch  where defect == .ignoresForeignGroups && owner == nil {
            guard try base.status(of: file).owner == base.effectiveUser else { throw error }
        }
    }

    func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        if defect == .readsFIFOs, try base.status(of: .descriptor(descriptor)).type == .fifo {
            throw FileSystemError(.readExtendedAttribute, .permissionDenied)
        }
        return try base.extendedAttribute(name, of: descriptor)
    }

    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError) {
        if defect == .touchesForNoTime, accessed == nil, modified == nil {
            return try base.setPermissions(try base.status(of: file).permissions, of: file)
        }
        try base.setTimes(accessed: accessed, modified: modified, of: file)
    }

    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        var newPath = newPath
        if defect == .ignoresTheSlash, mode == .exchanging, newPath.bytes.last == UInt8(ascii: "/") {
            newPath = POSIXPath(newPath.bytes.dropLast())
        }
        do throws(FileSystemError) {
            try base.rename(path, at: directory, to: newPath, at: newDirectory, mode)
        } catch
            where defect == .cutsNewPaths && error.errno == .fileNameTooLong
            || defect == .movesMountPoints && error.errno == .resourceBusy
        {}
    }

    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        do throws(FileSystemError) {
            try base.unlink(path, at: directory)
        } catch  where defect == .unlinksLongPaths && error.errno == .fileNameTooLong {}
    }

    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        if defect == .makesDirectoryNodes, type == .directory {
            return try base.createDirectory(path, at: directory, permissions: permissions)
        }
        try base.createNode(path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
    }

    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        let target = try base.readSymbolicLink(path, at: directory)
        if defect == .hidesReadLinks {
            let link = FileReference.path(path, at: directory, followsSymbolicLinks: false)
            try base.setTimes(accessed: FileTime(seconds: 0), modified: nil, of: link)
        }
        return target
    }

    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try base.lock(descriptor, mode, waiting: waiting && defect != .neverWaits)
    }

    func randomBits() -> UInt64 {
        defect == .countsToFour ? UInt64(calls.next() % 4) : base.randomBits()
    }

    // MARK: Watches and signals

    func makeDirectoryWatch(
        on queue: DispatchQueue, onEvents: @escaping @Sendable ([DirectoryEvent]) -> Void,
        onCancel: @escaping @Sendable () -> Void
    ) throws(FileSystemError) -> any DirectoryWatching {
        let (defect, isFirst) = (defect, calls.next() == 0)
        let watch = try base.makeDirectoryWatch(on: queue) { events in
            let reported = events.compactMap { BrokenWatch.reported($0, defect, isFirst: isFirst) }
            if !reported.isEmpty { onEvents(reported) }
        } onCancel: {
            onCancel()
            if defect == .cancelsTwice { onCancel() }
        }
        return BrokenWatch(base: watch, defect: defect)
    }

    func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? {
        do throws(FileSystemError) {
            return try base.makeSignal(of: descriptor).map { BrokenSignal(base: $0, defect: defect, cancelled: calls) }
        } catch  where defect == .hasNoSignal {
            return nil
        }
    }
}

/// A number that increases, the outcome of the last read, and closures.
private final class CallCounts: Sendable {
    private let state = Mutex((count: 0, bodies: [@Sendable () -> Duration?](), lastReadWasFull: false))

    var count: Int { state.withLock { $0.count } }

    var lastReadWasFull: Bool {
        get { state.withLock { $0.lastReadWasFull } }
        set { state.withLock { $0.lastReadWasFull = newValue } }
    }

    func next() -> Int {
        state.withLock { state in
            defer { state.count += 1 }
            return state.count
        }
    }

    func add(_ body: @escaping @Sendable () -> Duration?) { state.withLock { $0.bodies.append(body) } }

    func callAll() { for body in state.withLock({ $0.bodies }) { _ = body() } }
}

private final class BrokenWatch: DirectoryWatching {
    private let base: any DirectoryWatching
    private let defect: BrokenFileSystem.Defect?
    private let numbers = Mutex<Set<Int>>([])

    init(base: any DirectoryWatching, defect: BrokenFileSystem.Defect?) {
        self.base = base
        self.defect = defect
    }

    /// What is reported of an event; nil for nothing.
    static func reported(
        _ event: DirectoryEvent, _ defect: BrokenFileSystem.Defect?, isFirst: Bool
    ) -> DirectoryEvent? {
        switch (defect, event) {
        case (.missesRenames, .removed("a", _)), (.missesExchanges, .added("s", _)), (.hidesLosses, .lost): nil
        case (.hidesFromTheSecond, .added("a", _)) where !isFirst: nil
        case (.numbersAllAlike, .added("y", _)): .added("y", in: 2)
        case (.reportsAnotherName, .written("b", let number)): .written("c", in: number)
        case (.usesNumbersAgain, .added(let name, let number)): .added(name, in: number % 3)
        case (.usesNumbersAgain, .removed(let name, let number)): .removed(name, in: number % 3)
        default: event
        }
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        do throws(FileSystemError) {
            let number = try base.watch(directory, includesWrites: includesWrites || defect == .reportsEveryWrite)
            let isNew = numbers.withLock { $0.insert(number).inserted }
            if defect == .numbersTwice, !isNew { return number + 100 }
            return defect == .usesNumbersAgain ? number % 3 : number
        } catch
            where defect == .watchesFiles && error.errno == .notDirectory
            || defect == .watchesUnreadable && error.errno == .permissionDenied
        {
            return 1
        }
    }

    func unwatch(_ number: Int) { if defect != .ignoresUnwatch { base.unwatch(number) } }

    func cancel() { base.cancel() }
}

private struct BrokenSignal: FileSignal {
    let base: any FileSignal
    let defect: BrokenFileSystem.Defect?
    let cancelled: CallCounts

    func send() {
        cancelled.callAll()
        base.send()
    }

    func observe(_ body: @escaping @Sendable () -> Duration?) throws(FileSystemError) -> any FileSignalObservation {
        if defect == .signalsTheEnded { cancelled.add(body) }
        let base = try base.observe {
            let time = body()
            return defect == .forgetsTheTime ? nil : time
        }
        return Observation(base: base) { [defect, cancelled] in
            if defect == .signalsCancelled { cancelled.add(body) }
        }
    }

    private final class Observation: FileSignalObservation {
        private let base: any FileSignalObservation
        private let onCancel: @Sendable () -> Void

        init(base: any FileSignalObservation, onCancel: @escaping @Sendable () -> Void) {
            self.base = base
            self.onCancel = onCancel
        }

        func cancel() {
            base.cancel()
            onCancel()
        }
    }
}
