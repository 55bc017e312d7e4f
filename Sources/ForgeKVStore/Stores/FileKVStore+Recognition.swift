package import ForgeFileSystem

extension FileKVStore {
    /// Whether a file is the log of a store, by its name and what it begins with, also if that is damaged in places.
    ///
    /// The number of the log stands twice in its header, so the two copies tell a log whose magic number is damaged.
    package static func isLog(named name: String, startingWith bytes: [UInt8]) -> Bool {
        guard name == "log" else { return false }
        guard bytes.count >= LogHeader.size else { return LogHeader.magic.starts(with: bytes.prefix(8)) }
        let first = bytes[16..<32]
        return bytes.starts(with: LogHeader.magic)
            || (first.elementsEqual(bytes[40..<56]) && first.contains { $0 != 0 })
    }

    /// Whether a file of this name is a temporary file of the store in its directory.
    package static func isTemporary(_ name: POSIXPath) -> Bool {
        name == LogTemporaryFile.newLog || name == LogTemporaryFile.newQuarantine
    }
}
