package import ForgeFileSystem

/// The files in the directory of a key-value store.
package enum KeyValueLayout: StoreLayout {
    package static var kind: StoreKind { .keyValue }

    private static let internalNames: Set<POSIXPath> = [.lockName, "#shared", "#reserve"]

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> StoreFileRole {
        if internalNames.contains(name) { return .bookkeeping }
        if FileKVStore.isTemporary(name) { return .temporary }
        if name.bytes.starts(with: Quarantine.prefix.utf8) { return .quarantine }
        guard name == .logName else { return .content }
        return FileKVStore.isLog(startingWith: try start()) ? .log : .content
    }
}
