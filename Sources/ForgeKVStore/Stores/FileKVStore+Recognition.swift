package import ForgeFileSystem

/// The files in the directory of a key-value store.
package enum KeyValueLayout: StoreLayout {
    package static var kind: StoreKind { .keyValue }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole {
        if [.lockName, .sharedName, RemovalReserve.name].contains(name) { return .bookkeeping }
        if FileKVStore.isTemporary(name) { return .temporary }
        if FileKVStore.isQuarantine(name) { return .quarantine }
        guard name == .logName else { return .content }
        return FileKVStore.isLog(startingWith: try start()) ? .log : .content
    }
}
