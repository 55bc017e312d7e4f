import ForgeFileSystem
import SystemPackage

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
            return bytes.withUnsafeBytes { bytes -> String? in
                guard bytes.count >= LogRecord.batchPrefixSize else { return nil }
                let size = Int(bytes.integer(at: 2, as: UInt16.self))
                let end = LogRecord.batchPrefixSize + size
                guard size <= KeyName.maximumLength, end <= bytes.count else { return nil }
                return String(validating: bytes[LogRecord.batchPrefixSize..<end], as: UTF8.self)
            }
        }
    }

    private static func digits(of bytes: [UInt8]) -> String {
        var checksum = CRC32C()
        bytes.withUnsafeBytes { checksum.update($0) }
        let digits = String(checksum.value, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}
