public import ForgeFileSystem
public import Foundation
import SystemPackage

/// The content of a store's log, read without opening the store and without changing anything.
public struct KVInspection: Sendable, Hashable {
    /// The number of valid records.
    public var recordCount = 0

    /// The number of keys with a value.
    public var keyCount = 0

    /// The size of the log.
    public var sizeInBytes: Int64

    /// Damage, one line per place; opening the store for writing sets it aside.
    public var problems: [String] = []

    /// Defects without loss of acknowledged writes, one line each: an unfinished record at the end, after intact ones.
    public var notes: [String] = []

    /// The maximum number of scans of a log that changes during each scan.
    private static let scanLimit = 8

    /// Reads the log of the store in a directory; no lock is taken.
    ///
    /// Another process may write to the store meanwhile. Its last record may then look unfinished; a problem is
    /// reported only if two successive reads show it, because a single read may see bytes before they are stored.
    ///
    /// - Returns: Nil if there is no log in the directory.
    /// - Throws: ``KVStoreError`` if the log cannot be read; `.unknownFormat` for a later version.
    /// - Complexity: O(*n*) in the size of the log, whose current values are held in memory.
    public init?(of url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()) throws {
        do {
            let log = try POSIXPath(url).appending(.logName)
            try self.init(log: log, store: url.path, on: fileSystem)
            var earlier: [String] = []
            for _ in 1..<Self.scanLimit where !problems.allSatisfy(earlier.contains) {
                earlier = problems
                self = try KVInspection(log: log, store: url.path, on: fileSystem)
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return nil
        } catch let error as FileSystemError {
            throw KVStoreError(error, .open, store: url.path)
        }
    }

    private init(log path: POSIXPath, store: String, on fileSystem: any POSIXFileSystem) throws {
        let log = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
        defer {
            // It was only read, so closing cannot lose data.
            do { try fileSystem.close(log) } catch _ {}
        }
        sizeInBytes = try fileSystem.status(of: .descriptor(log)).sizeInBytes
        let beginning = try fileSystem.readBytes(of: log, at: 0, count: LogHeader.size)
        switch LogHeader.read(beginning) {
        case .valid(let header):
            try scan(log, header.fileID, on: fileSystem)
        case .unknownVersion(let version):
            throw KVStoreError(.unknownFormat(version: version), .open, store: store)
        case .damaged where LogHeader.isInterruptedCreation(beginning, fileSize: sizeInBytes):
            notes.append("a log whose creation was interrupted")
        case .damaged(let candidates):
            problems.append("the header of the log is damaged")
            for candidate in candidates where recordCount == 0 { try scan(log, candidate, on: fileSystem) }
        }
    }

    private mutating func scan(
        _ log: Descriptor, _ fileID: LogFileID, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) {
        var table = TableWriter(ValueTable())
        var scan = LogScan(log, size: sizeInBytes, fileID: fileID, on: fileSystem)
        let found = try scan.run(into: &table)
        recordCount = found.recordCount
        keyCount = table.count
        for range in found.damage {
            problems.append(
                range.isEmpty
                    ? "records are missing at byte \(range.lowerBound)"
                    : "damaged records at bytes \(range.lowerBound) to \(range.upperBound)")
        }
        guard found.isTorn else { return }
        if found.isSearchIncomplete {
            problems.append("a bad record at byte \(found.end), and behind it too much to search for intact ones")
        } else if found.discardedRecordCount > 0 {
            problems.append("\(found.discardedRecordCount) intact records behind a bad one at byte \(found.end)")
        } else if found.recordCount == 0 {
            // All that was ever written there is missing: a copy of the log may have been cut short.
            problems.append("the first record is incomplete or damaged, and no other one follows")
        } else {
            notes.append("an unfinished record at byte \(found.end)")
        }
    }
}
