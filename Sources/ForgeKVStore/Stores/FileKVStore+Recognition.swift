package import ForgeFileSystem

extension FileKVStore {
    /// Whether a file is the log of a store, according to its name and its first bytes, even if they are partly
    /// damaged.
    ///
    /// The header contains the log's identifier twice, so a log is recognised even if its magic number is damaged.
    package static func isLog(named name: String, startingWith bytes: [UInt8]) -> Bool {
        guard name == "log" else { return false }
        guard bytes.count >= LogHeader.size else { return LogHeader.magic.starts(with: bytes.prefix(8)) }
        let first = bytes[16..<32]
        return bytes.starts(with: LogHeader.magic)
            || (first.elementsEqual(bytes[40..<56]) && first.contains { $0 != 0 })
    }

    /// Whether this is the name of a temporary file of a store.
    package static func isTemporary(_ name: POSIXPath) -> Bool {
        name == LogTemporaryFile.newLog || name == LogTemporaryFile.newQuarantine
    }
}
