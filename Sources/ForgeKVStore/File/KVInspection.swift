public import ForgeFileSystem
public import Foundation
import SystemPackage

/// What a look at the log of a store finds, without opening the store and without changing anything.
public struct KVInspection: Sendable, Hashable {
    /// How many records count.
    public var recordCount = 0

    /// How many keys have a value.
    public var keyCount = 0

    /// The length of the log.
    public var sizeInBytes: Int64

    /// What is not as it should be, a line each; opening the store would set it aside.
    public var problems: [String] = []

    /// What is not as it should be but costs nothing that was acknowledged: an unfinished record at the end.
    public var notes: [String] = []

    /// Reads the log of the store in a directory.
    ///
    /// A store that is being written to meanwhile may look as if its last record were unfinished.
    ///
    /// - Returns: Nil if there is no log in the directory.
    /// - Throws: ``KVStoreError`` if the log cannot be read; `.unknownFormat` if it is of a later version.
    /// - Complexity: O(*n*) in the length of the log, which is held in memory without what is out of date.
    public init?(of url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()) throws {
        do {
            try self.init(log: try POSIXPath(url).appending(.logName), store: url.path, on: fileSystem)
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return nil
        } catch let error as FileSystemError {
            throw KVStoreError(error, .open, store: url.path)
        }
    }

    private init(log path: POSIXPath, store: String, on fileSystem: any POSIXFileSystem) throws {
        let log = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
        defer {
            // It was only read.
            do { try fileSystem.close(log) } catch _ {}
        }
        sizeInBytes = try fileSystem.status(of: .descriptor(log)).sizeInBytes
        switch LogHeader.read(try fileSystem.readBytes(of: log, at: 0, count: LogHeader.size)) {
        case .valid(let header):
            try scan(log, header.fileID, on: fileSystem)
        case .unknownVersion(let version):
            throw KVStoreError(.unknownFormat(version: version), .open, store: store)
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
        if found.discardedRecordCount > 0 {
            problems.append("\(found.discardedRecordCount) intact records behind a bad one at byte \(found.end)")
        } else {
            notes.append("an unfinished record at byte \(found.end)")
        }
    }
}
