import ForgeFileSystem
import SystemPackage

extension Quarantine {
    /// Keeps a value that is about to be overwritten although nobody could read it, durably.
    ///
    /// The file holds the name and the value as a batch in the log does. It is called
    /// `quarantine-value-0badcafe-17-1f2e3d4c`: after the CRC-32C of the name, the revision of the value and the CRC-32C
    /// of the whole.
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
            try fileSystem.replaceFile(
                file, at: directory, .exclusive, permissions: .privateFile, durability: .full
            ) { (copy) throws(FileSystemError) in
                try fileSystem.writeBytes(content, to: copy)
            }
        } catch  where error.errno == .fileExists {
            // It was set aside before, by a write that failed then.
        }
        return KVDamageReport(
            kind: .value, file: String(path.appending(file)), offset: 0, sizeInBytes: Int64(content.count),
            key: name.string)
    }

    /// The name in a file that a value was set aside in; nil if it is not such a file.
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
