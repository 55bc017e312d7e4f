import ForgeFileSystem
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
            chunk.withUnsafeBytes { checksum.update($0) }
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
            guard let chunk = try reader.withBytes(at: offset, count: count, { Array($0) }) else {
                throw FileSystemError(.read, .ioError, path: .logName)
            }
            try body(chunk)
            offset += Int64(count)
        }
    }
}
