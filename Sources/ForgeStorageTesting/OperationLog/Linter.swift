public import ForgeFileSystem
import SystemPackage

extension OperationLog {
    /// Finds unsafe patterns in the log, in log order.
    ///
    /// Internal names of stores (`#tmp-…`, `#trash-…`, `#lock`) may disappear or reappear at any time and are skipped.
    /// Patterns that involve an acknowledgement require calls of ``acknowledge(_:)``. A finding need not be a mistake:
    /// `replaceFile` without durability renames unsynchronised content by design.
    ///
    /// A log without findings is no proof: `forEachCrash` of ForgeCrashTesting finds what this cannot. It compares the
    /// calls on one file or directory only, so it does not see that two files must change in one order. It does not see
    /// what a kill between two calls leaves, nor that a record is torn between two blocks, nor whether the content is the
    /// right one and a restart can read it. Without a call of ``acknowledge(_:)`` it cannot know what was promised.
    public func lint() -> [LintFinding] {
        var linter = Linter()
        for entry in entries { linter.read(entry) }
        return linter.finish()
    }
}

/// The state that the device has confirmed, as far as the log shows.
private struct Linter {
    /// The durability of a file's content.
    private struct Content {
        /// The first write since the last synchronisation, and its path.
        var dirtySince: (sequence: Int, path: POSIXPath?)?
        /// The first store through a mapping since it was last written back.
        var storedSince: (sequence: Int, path: POSIXPath?)?
        /// The bytes stored through mappings, and those of them that are synchronised.
        var stored: [Range<Int64>] = []
        var safelyStored: [Range<Int64>] = []
        /// Whether unsynchronised content is ordered before later writes.
        var isOrdered = true
        /// The size of the file when it was synchronised or first seen.
        var safeSize: Int64 = 0
        /// Whether a synchronisation failed and nothing was written since.
        var hasFailed = false
        var closedDirtyAt: Int?
    }

    private struct Name: Hashable {
        var directory: Int
        var path: POSIXPath
    }

    private struct PendingName {
        var sequence: Int
        var isRemoval: Bool
    }

    private var findings: [LintFinding] = []
    private var contents: [Int: Content] = [:]
    private var names: [Name: PendingName] = [:]
    /// Files without a name, which no crash restores.
    private var gone: Set<Int> = []

    mutating func read(_ entry: OperationLog.Entry) {
        switch entry {
        case .acknowledgement(let sequence, _): acknowledge(sequence)
        case .operation(let record): read(record)
        }
    }

    mutating func finish() -> [LintFinding] {
        for inode in contents.keys { reportClose(of: inode) }
        for (name, pending) in names where !pending.isRemoval {
            findings.append(LintFinding(.directoryNeverSynchronized, pending.sequence, name.path))
        }
        // Some loops iterate in hash order.
        return findings.sorted {
            ($0.sequence, $0.kind.rawValue, $0.path?.description ?? "")
                < ($1.sequence, $1.kind.rawValue, $1.path?.description ?? "")
        }
    }

    private mutating func acknowledge(_ sequence: Int) {
        for (inode, content) in contents {
            guard let dirty = content.dirtySince else { continue }
            findings.append(LintFinding(.acknowledgedUnsynchronizedData, sequence, dirty.path))
            reportClose(of: inode)
        }
        for name in names.keys {
            findings.append(LintFinding(.acknowledgedUnsynchronizedName, sequence, name.path))
        }
    }

    private mutating func read(_ record: OperationRecord) {
        if record.operation == .synchronize { return synchronize(record) }
        guard record.isEffective else { return }
        switch record.operation {
        case .open: open(record)
        case .write, .copyRange, .truncate, .allocate, .store: change(record)
        case .writeBack: writeBack(record)
        case .close: close(record)
        case .createDirectory, .createNode, .createSymbolicLink: add(record.path, record.directory, record)
        case .link:
            publish(record)
            add(record.destination, record.newDirectory, record)
        case .rename: rename(record)
        case .unlink, .removeDirectory: remove(record)
        default: break
        }
    }

    // MARK: Content

    private mutating func open(_ record: OperationRecord) {
        guard let inode = record.inode, record.isRegular else { return }
        if record.isCreation {
            contents[inode] = Content()
            add(record.path, record.directory, record)
        } else if contents[inode] == nil {
            contents[inode] = Content(safeSize: record.sizeBefore ?? 0)
        }
        if record.newSize != nil { change(record) }
    }

    private mutating func change(_ record: OperationRecord) {
        guard let inode = record.inode, !gone.contains(inode) else { return }
        var content = contents[inode] ?? Content(safeSize: record.sizeBefore ?? 0)
        switch record.operation {
        case .write, .copyRange:
            guard let count = record.transferredCount, count > 0 else { return }
            if let position = record.position, position < content.safeSize {
                findings.append(LintFinding(.wroteInPlace, record.sequence, record.path))
            }
        case .store:
            guard let position = record.position, let count = record.count else { return }
            let range = position..<position + count
            // Preallocated space is zero: storing into it replaces nothing.
            if content.safelyStored.contains(where: { $0.overlaps(range) }) {
                findings.append(LintFinding(.wroteInPlace, record.sequence, record.path))
            }
            content.stored.add(range)
            content.storedSince = content.storedSince ?? (record.sequence, record.path)
        case .truncate, .open:
            guard record.newSize != record.sizeBefore else { return }
            if let size = record.newSize, size < content.safeSize {
                findings.append(LintFinding(.wroteInPlace, record.sequence, record.path))
                content.safeSize = size
            }
        default: break
        }
        content.dirtySince = content.dirtySince ?? (record.sequence, record.path)
        content.isOrdered = false
        content.hasFailed = false
        contents[inode] = content
    }

    /// Marks stored bytes as covered by the next synchronisation.
    private mutating func writeBack(_ record: OperationRecord) {
        guard let inode = record.inode, let offset = record.offset, let count = record.count else { return }
        // A write-back of a part of the stored range covers nothing.
        let range = offset..<offset + count
        guard contents[inode]?.stored.allSatisfy({ range.contains($0) }) == true else { return }
        contents[inode]?.storedSince = nil
    }

    private mutating func close(_ record: OperationRecord) {
        guard let inode = record.inode, record.isLastDescriptorOfFile, contents[inode]?.isOrdered == false else {
            return
        }
        contents[inode]?.closedDirtyAt = record.sequence
    }

    /// Reports a file closed with unsynchronised data, once it is known not to be temporary.
    private mutating func reportClose(of inode: Int) {
        guard let content = contents[inode], let sequence = content.closedDirtyAt else { return }
        findings.append(LintFinding(.closedDirtyFile, sequence, content.dirtySince?.path))
        contents[inode]?.closedDirtyAt = nil
    }

    private mutating func synchronize(_ record: OperationRecord) {
        guard let inode = record.inode else { return }
        let succeeded = record.isForwarded && record.isEffective
        if contents[inode] != nil {
            if contents[inode]?.hasFailed == true {
                findings.append(LintFinding(.retriedSynchronization, record.sequence, record.path))
            }
            guard succeeded else {
                // A false success cannot be detected by the program, so it is not a finding.
                if case .failure = record.outcome, contents[inode]?.dirtySince != nil {
                    contents[inode]?.hasFailed = true
                }
                return
            }
            let isWrittenBack = contents[inode]?.storedSince == nil
            contents[inode]?.isOrdered = isWrittenBack
            guard record.detail != String(describing: SyncLevel.barrier), contents[inode]?.hasFailed == false else {
                return
            }
            settle(inode)
            contents[inode]?.safeSize = record.sizeBefore ?? 0
        } else if succeeded {
            for name in names.keys where name.directory == inode { names[name] = nil }
        }
    }

    /// Marks written bytes as durable, and stored ones too if they were written back.
    private mutating func settle(_ inode: Int) {
        guard var content = contents[inode] else { return }
        content.dirtySince = content.storedSince
        content.closedDirtyAt = nil
        if content.storedSince == nil {
            for range in content.stored { content.safelyStored.add(range) }
            content.stored = []
        }
        contents[inode] = content
    }

    // MARK: Names

    private mutating func add(_ path: POSIXPath?, _ directory: Int?, _ record: OperationRecord) {
        guard let path, let directory, !path.splitLast().name.isReservedName else { return }
        names[Name(directory: directory, path: path)] = PendingName(sequence: record.sequence, isRemoval: false)
    }

    /// Handles a file that gets a non-temporary name.
    private mutating func publish(_ record: OperationRecord) {
        guard let inode = record.inode, let content = contents[inode], content.dirtySince != nil else { return }
        if !content.isOrdered {
            findings.append(LintFinding(.renamedUnsynchronizedData, record.sequence, record.destination))
        }
        reportClose(of: inode)
    }

    private mutating func rename(_ record: OperationRecord) {
        publish(record)
        if let replaced = record.replaced { contents[replaced] = nil }
        removeName(record)
        add(record.destination, record.newDirectory, record)
    }

    private mutating func remove(_ record: OperationRecord) {
        removeName(record)
        guard let inode = record.inode else { return }
        if record.linkCount == 1 {
            contents[inode] = nil
            gone.insert(inode)
        }
        for name in names.keys where name.directory == inode { names[name] = nil }
    }

    private mutating func removeName(_ record: OperationRecord) {
        guard let path = record.path, let directory = record.directory, !path.splitLast().name.isReservedName else {
            return
        }
        names[Name(directory: directory, path: path)] = PendingName(sequence: record.sequence, isRemoval: true)
    }
}

extension [Range<Int64>] {
    /// Adds a range, merged with the last one if they touch.
    fileprivate mutating func add(_ range: Range<Int64>) {
        if let last, last.lowerBound <= range.lowerBound, range.lowerBound <= last.upperBound {
            self[count - 1] = last.lowerBound..<Swift.max(last.upperBound, range.upperBound)
        } else {
            append(range)
        }
    }
}

/// An unsafe pattern in a log: one of the mistakes that Pillai et al. found in most programs ("All File Systems Are Not
/// Created Equal", OSDI 2014).
public struct LintFinding: Hashable, Sendable {
    /// The pattern.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The name may become durable before the content: after a power cut the file may be empty and the old one
        /// lost.
        case renamedUnsynchronizedData = "renamed a file with unsynchronised data"

        /// Acknowledged while a created, moved or removed name could still be undone.
        case acknowledgedUnsynchronizedName = "acknowledged with an unsynchronised name"

        /// Acknowledged while content could still be lost.
        case acknowledgedUnsynchronizedData = "acknowledged with unsynchronised data"

        /// No open descriptor is left to report a later write-back failure.
        case closedDirtyFile = "closed a dirty file without synchronising"

        /// After a power cut, old and new content may be mixed.
        case wroteInPlace = "wrote in place over synchronised data"

        /// A name was added or moved, and its directory was never synchronised afterwards.
        case directoryNeverSynchronized = "directory never synchronised after create/rename"

        /// A success after a failure does not cover the data that the failure lost.
        case retriedSynchronization = "synchronised again after a failure, without writing anew"
    }

    /// The pattern.
    public let kind: Kind

    /// The sequence number of the offending entry.
    public let sequence: Int

    /// The path as it appears in the log.
    public let path: POSIXPath?

    init(_ kind: Kind, _ sequence: Int, _ path: POSIXPath?) {
        self.kind = kind
        self.sequence = sequence
        self.path = path
    }
}

extension LintFinding: CustomStringConvertible {
    public var description: String {
        "line \(sequence): \(kind.rawValue)" + (path.map { ": \($0)" } ?? "")
    }
}
