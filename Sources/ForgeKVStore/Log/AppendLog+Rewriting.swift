import ForgeFileSystem
import SystemPackage

extension POSIXPath {
    /// The name of the log in the directory of a store.
    static let logName: POSIXPath = "log"
}

extension AppendLog {
    /// Writes a log of these values and puts it in the place of the one there, durably; nothing may be appended to the
    /// old one after that.
    ///
    /// - Throws: The old log is still in place unless ``FileSystemError/isEffectVisible`` is set: then either may be
    ///   after a power cut, so that nothing may be appended to any.
    static func rewriting(
        _ values: some Sequence<(KeyName, [UInt8])>, header: LogHeader, at directory: Descriptor,
        on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> AppendLog {
        var kept: Descriptor?
        var end = Int64(LogHeader.size)
        var sequence: UInt64 = 0
        do throws(FileSystemError) {
            try fileSystem.replaceFile(
                .logName, at: directory, .replacing, permissions: .privateFile, durability: .full
            ) { (descriptor) throws(FileSystemError) in
                kept = try fileSystem.duplicate(descriptor)
                let checksum = header.fileID.checksum
                var chunk = header.encoded()
                for (name, value) in values {
                    let before = chunk.count
                    sequence += 1
                    LogRecord.append(
                        .set(name, value), sequence: sequence, unflushedCount: UInt32(clamping: sequence - 1),
                        checksum: checksum, to: &chunk)
                    end += Int64(chunk.count - before)
                    guard chunk.count >= 1 << 20 else { continue }
                    try fileSystem.writeBytes(chunk, to: descriptor)
                    chunk.removeAll(keepingCapacity: true)
                }
                if sequence > 0 {
                    // True by the time anybody can read it: the name points here only after the flush.
                    let before = chunk.count
                    sequence += 1
                    LogRecord.append(
                        .flushed, sequence: sequence, unflushedCount: 0, checksum: checksum, to: &chunk)
                    end += Int64(chunk.count - before)
                }
                try fileSystem.writeBytes(chunk, to: descriptor)
            }
        } catch {
            // Why the log was not rewritten is what the caller needs to hear.
            if let kept { do { try fileSystem.close(kept) } catch _ {} }
            throw error
        }
        guard let kept else { throw FileSystemError(.duplicate, .badFileDescriptor) }
        return AppendLog(
            kept, header: header, end: end, sequence: sequence, flushedSequence: sequence, isDirty: false,
            on: fileSystem)
    }
}
