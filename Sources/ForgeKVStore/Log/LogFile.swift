import ForgeFileSystem

extension POSIXPath {
    /// The name of the log in the directory of a store.
    static let logName: POSIXPath = "log"
}

/// The open file of a log, closed when nobody uses it any more.
final class LogFile: Sendable {
    let fileSystem: any POSIXFileSystem
    let descriptor: Descriptor
    let header: LogHeader

    init(_ descriptor: Descriptor, header: LogHeader, on fileSystem: any POSIXFileSystem) {
        self.fileSystem = fileSystem
        self.descriptor = descriptor
        self.header = header
    }

    deinit {
        // Whatever had to be on the device was flushed before.
        do { try fileSystem.close(descriptor) } catch _ {}
    }
}

extension LogFile {
    /// The change that the record at an offset is, and its number; nil if there is no intact one before `end`.
    func record(
        at offset: Int64, before end: Int64, maximumPayloadSize: Int
    ) throws(FileSystemError) -> (change: LogRecord.Change, sequence: UInt64)? {
        guard offset >= Int64(LogHeader.size), offset < end else { return nil }
        var bytes = try fileSystem.readBytes(of: descriptor, at: offset, count: Int(min(end - offset, 512)))
        guard bytes.count >= LogRecord.frameSize + LogRecord.payloadPrefixSize else { return nil }
        let frame = bytes.withUnsafeBytes { LogRecord.frame($0) }
        let size = LogRecord.frameSize + frame.payloadSize
        guard frame.payloadSize >= LogRecord.payloadPrefixSize, frame.payloadSize <= maximumPayloadSize,
            Int64(size) <= end - offset
        else { return nil }
        if size > bytes.count { bytes = try fileSystem.readBytes(of: descriptor, at: offset, count: size) }
        guard bytes.count >= size else { return nil }
        return bytes.withUnsafeBytes { buffer in
            let record = UnsafeRawBufferPointer(rebasing: buffer[..<size])
            guard LogRecord.isIntact(record, checksum: header.fileID.checksum) else { return nil }
            let payload = UnsafeRawBufferPointer(rebasing: record[LogRecord.frameSize...])
            guard let change = LogRecord.change(payload), change.count <= frame.sequence,
                frame.sequence <= LogRecord.maximumSequence
            else { return nil }
            return (change, frame.sequence)
        }
    }
}
