package import ForgeFileSystem
import SystemPackage

/// The files beside a log that contain unreadable data, byte for byte.
///
/// The name identifies the bytes: `quarantine-records-1f2e3d4c-4096-0badcafe` contains damaged records, from byte 4,096
/// on, of the log whose identifier begins with `1f2e3d4c`, and their CRC-32C is `0badcafe`. Setting the same bytes
/// aside twice creates one file.
struct Quarantine {
    let fileSystem: any POSIXFileSystem
    let directory: Descriptor
    let path: POSIXPath

    static let prefix = "quarantine-"

    /// Copies a range of an open log, durably.
    func setAside(
        _ range: Range<Int64>, of log: Descriptor, _ kind: KVDamageReport.Kind, logName: String
    ) throws(FileSystemError) -> KVDamageReport {
        var checksum = CRC32C()
        try forEachChunk(of: range, in: log) { (chunk) throws(FileSystemError) in
            checksum.update(chunk.span, 0..<chunk.count)
        }
        let digits = String(checksum.value, radix: 16)
        let name = POSIXPath(
            "\(Self.prefix)\(kind.rawValue)-\(logName)-\(range.lowerBound)-"
                + String(repeating: "0", count: 8 - digits.count) + digits)
        do throws(FileSystemError) {
            try create(name) { (copy) throws(FileSystemError) in
                try forEachChunk(of: range, in: log) { (chunk) throws(FileSystemError) in
                    try fileSystem.writeBytes(chunk, to: copy)
                }
            }
        } catch  where error.errno == .fileExists {
            // An earlier opening set it aside but could not repair the log.
        }
        return KVDamageReport(
            kind: kind, file: String(path.appending(name)), offset: range.lowerBound,
            sizeInBytes: range.upperBound - range.lowerBound)
    }

    /// Creates a file with the content that `content` writes, durably; throws `EEXIST` if the name exists.
    func create(
        _ name: POSIXPath, content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard try !exists(name) else { throw FileSystemError(.open, .fileExists, path: name) }
        let temporary = LogTemporaryFile.newQuarantine
        let file = try LogTemporaryFile.create(temporary, at: directory, on: fileSystem)
        do throws(FileSystemError) {
            try fileSystem.closing(file) { () throws(FileSystemError) in
                try content(file)
                try fileSystem.synchronize(file, .full)
            }
            // Only the process that holds the store's lock creates such names.
            try fileSystem.rename(temporary, at: directory, to: name, at: directory, .replacing)
        } catch {
            do { try fileSystem.unlink(temporary, at: directory) } catch _ {}  // The next opening removes it.
            throw error
        }
        try fileSystem.synchronize(directory, .full)
    }

    private func exists(_ name: POSIXPath) throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            _ = try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
            return true
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return false
        }
    }

    /// Moves the whole log aside, durably.
    func setAsideLog(sizeInBytes: Int64) throws(FileSystemError) -> KVDamageReport {
        let name = POSIXPath.reserved("\(Self.prefix)log-", using: fileSystem.randomBits)
        try fileSystem.rename(.logName, at: directory, to: name, at: directory, .replacing)
        try fileSystem.synchronize(directory, .full)
        return KVDamageReport(
            kind: .log, file: String(path.appending(name)), offset: 0, sizeInBytes: sizeInBytes)
    }

    /// Reports of all data that was set aside and still exists.
    func reports() throws(FileSystemError) -> [KVDamageReport] {
        var reports: [KVDamageReport] = []
        for entry in try fileSystem.entries(of: directory) {
            guard let text = String(validating: entry.name), text.hasPrefix(Self.prefix) else { continue }
            let parts = text.dropFirst(Self.prefix.count).split(separator: "-", omittingEmptySubsequences: false)
            guard let kind = parts.first.flatMap({ KVDamageReport.Kind(rawValue: String($0)) }) else { continue }
            let offset = kind != .value && parts.count >= 3 ? Int64(parts[2]) ?? 0 : 0
            let status = try fileSystem.status(entry.name, at: directory, followsSymbolicLinks: false)
            guard status.type == .regular else { continue }
            reports.append(
                KVDamageReport(
                    kind: kind, file: String(path.appending(entry.name)), offset: offset,
                    sizeInBytes: status.sizeInBytes, key: kind == .value ? try key(in: entry.name) : nil))
        }
        return reports.sorted { ($0.offset, $0.file) < ($1.offset, $1.file) }
    }

    private func forEachChunk(
        of range: Range<Int64>, in log: Descriptor, _ body: ([UInt8]) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        var reader = LogReader(log, size: range.upperBound, on: fileSystem)
        var offset = range.lowerBound
        while offset < range.upperBound {
            let count = Int(min(1 << 20, range.upperBound - offset))
            guard let chunk = try reader.withBytes(at: offset, count: count, { [UInt8]($0) }) else {
                throw FileSystemError(.read, .ioError, path: .logName)
            }
            try body(chunk)
            offset += Int64(count)
        }
    }
}

extension Quarantine {
    /// Copies an unreadable value that is about to be overwritten to a file, durably.
    ///
    /// The file contains the name and the value in the form of a batch in the log. Its name, such as
    /// `quarantine-value-0badcafe-17-1f2e3d4c`, contains the CRC-32C of the name, the revision of the value and the
    /// CRC-32C of the content.
    func setAside(
        _ bytes: [UInt8], of name: KeyName, revision: UInt64
    ) throws(FileSystemError) -> KVDamageReport {
        var content: [UInt8] = []
        content.reserveCapacity(LogRecord.batchPrefixSize + name.count + bytes.count)
        LogRecord.appendToBatch(.set, name, bytes, &content)
        let file = POSIXPath(
            "\(Self.prefix)\(KVDamageReport.Kind.value.rawValue)-\(Self.digits(of: Array(name.string.utf8)))-\(revision)-"
                + Self.digits(of: content))
        do throws(FileSystemError) {
            try create(file) { (copy) throws(FileSystemError) in
                try fileSystem.writeBytes(content, to: copy)
            }
        } catch  where error.errno == .fileExists {
            // An earlier write set it aside and then failed.
        }
        return KVDamageReport(
            kind: .value, file: String(path.appending(file)), offset: 0, sizeInBytes: Int64(content.count),
            key: name.string)
    }

    /// The limits on the number of files with values and on their total size; the newest is always kept.
    static let valueCountLimit = 64
    static let valueSizeLimit: Int64 = 64 << 20

    /// Removes the oldest files with values beyond the limits; returns their number. Files with damaged bytes are never
    /// removed.
    func removeOldValues() throws(FileSystemError) -> Int {
        let prefix = "\(Self.prefix)\(KVDamageReport.Kind.value.rawValue)-"
        var files: [(revision: UInt64, name: POSIXPath)] = []
        for entry in try fileSystem.entries(of: directory) {
            guard let text = String(validating: entry.name), text.hasPrefix(prefix) else { continue }
            let parts = text.dropFirst(prefix.count).split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 3, let revision = UInt64(parts[1]) else { continue }
            files.append((revision, entry.name))
        }
        files.sort { $0.revision > $1.revision }
        var size: Int64 = 0
        var removedCount = 0
        for (number, file) in files.enumerated() {
            let status = try fileSystem.status(file.name, at: directory, followsSymbolicLinks: false)
            guard status.type == .regular else { continue }
            size += status.sizeInBytes
            guard number > 0, number >= Self.valueCountLimit || size > Self.valueSizeLimit else { continue }
            try fileSystem.unlink(file.name, at: directory)
            removedCount += 1
        }
        return removedCount
    }

    /// The name in a file with a value that was set aside; nil if it is not such a file.
    func key(in file: POSIXPath) throws(FileSystemError) -> String? {
        let descriptor = try fileSystem.open(file, at: directory, .readOnly, options: [.noFollow, .nonBlocking])
        return try fileSystem.closing(descriptor) { () throws(FileSystemError) in
            let bytes = try fileSystem.readBytes(
                of: descriptor, at: 0, count: LogRecord.batchPrefixSize + KeyName.maximumLength)
            guard bytes.count >= LogRecord.batchPrefixSize else { return nil }
            let end = LogRecord.batchPrefixSize + Int(bytes.span.integer(at: 2, as: UInt16.self))
            guard end <= bytes.count else { return nil }
            return String(validating: bytes[LogRecord.batchPrefixSize..<end], as: UTF8.self)
        }
    }

    private static func digits(of bytes: [UInt8]) -> String {
        var checksum = CRC32C()
        checksum.update(bytes.span, 0..<bytes.count)
        let digits = String(checksum.value, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}

/// The temporary names a store writes to before it renames the file into place. A store may remove these after a crash,
/// and no other file.
package enum LogTemporaryFile {
    static let newLog: POSIXPath = "#log-new"
    static let newQuarantine: POSIXPath = "#quarantine-new"

    private static let newLogOfProcess = "#log-new-"

    /// The name of a new log that a process writes beside others: with the identity of the process, so that only a
    /// leftover is removed, and a random number that tells several of it apart.
    static func newLog(of process: ProcessIdentity, _ number: UInt64) -> POSIXPath {
        POSIXPath("\(newLogOfProcess)\(process.id)-\(process.boot)-\(process.start)-\(number)")
    }

    /// Whether a file of this name is temporary.
    package static func contains(_ name: POSIXPath) -> Bool {
        name == newLog || name == newQuarantine || name.bytes.starts(with: newLogOfProcess.utf8)
    }

    /// The process in the name of a new log; nil if there is none.
    private static func process(in name: POSIXPath) -> ProcessIdentity? {
        let parts = String(name).dropFirst(newLogOfProcess.utf8.count).split(separator: "-")
        guard parts.count == 4, let id = Int32(parts[0]), id > 0, let boot = UInt32(parts[1]),
            let start = UInt64(parts[2])
        else { return nil }
        return ProcessIdentity(id: id, boot: boot, start: start)
    }

    /// Creates an empty file under one of the names, replacing a leftover.
    static func create(
        _ name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Descriptor {
        do throws(FileSystemError) {
            return try fileSystem.createStoreFile(name, at: directory)
        } catch {
            guard error.errno == .fileExists else { throw error }
        }
        try fileSystem.unlink(name, at: directory)
        return try fileSystem.createStoreFile(name, at: directory)
    }

    /// Removes leftovers of ended processes. ``create(_:at:on:)`` reports a failure when a name is needed.
    static func removeLeftovers(
        at directory: Descriptor, on fileSystem: any POSIXFileSystem, _ processes: ProcessTable
    ) {
        for name in [newLog, newQuarantine] {
            do { try fileSystem.unlink(name, at: directory) } catch _ {}
        }
        do {
            for entry in try fileSystem.entries(of: directory) where contains(entry.name) {
                if let process = process(in: entry.name), processes.isRunning(process) { continue }
                try fileSystem.unlink(entry.name, at: directory)
            }
        } catch _ {}
    }
}

/// The file `#reserve` of a store: one block, freed when a removal finds the device full.
///
/// An open exclusive store also reserves space after the end of its log (``LogSpace``), which it gives back when it is
/// closed; a shared log always ends with its last record. The file belongs to the store like `log`. A store without it
/// works, but on a full device it can remove single values only while the last block of the log has room.
struct RemovalReserve: Sendable {
    static let name: POSIXPath = "#reserve"
    static let size = 4096

    let fileSystem: any POSIXFileSystem
    let directory: Descriptor

    /// Creates the file unless it exists. A failure is ignored: the next opening or compaction tries again.
    func fill() {
        do throws(FileSystemError) {
            let file = try fileSystem.createStoreFile(Self.name, at: directory)
            defer { fileSystem.discard(file) }
            do throws(FileSystemError) {
                // Not zeros, for which some file systems allocate no space.
                let content = [UInt8](repeating: 0x23, count: Self.size)
                try fileSystem.writeBytes(content, to: file, at: 0)
            } catch {
                try fileSystem.unlink(Self.name, at: directory)
            }
        } catch _ {}
    }

    /// Removes the file, which frees its block; returns whether it existed.
    func release() -> Bool {
        do throws(FileSystemError) {
            try fileSystem.unlink(Self.name, at: directory)
            return true
        } catch _ {
            return false
        }
    }
}
