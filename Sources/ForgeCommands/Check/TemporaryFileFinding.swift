import ForgeStorage
import SystemPackage

/// Finds the store that a temporary file belongs to, from the records in its parent directories.
struct TemporaryFileFinding {
    private let fileSystem: SystemFileSystem

    init(on fileSystem: SystemFileSystem) {
        self.fileSystem = fileSystem
    }

    /// The origin of a temporary file or directory according to a store below `top`; nil if no store has recorded it.
    func origin(of path: POSIXPath, below top: POSIXPath) throws(FileSystemError) -> TemporaryFileOrigin? {
        var root = path.splitLast().parent
        while true {
            if let origin = try TemporaryFileOrigin.find(path, below: root, on: fileSystem) { return origin }
            guard root.count > top.count else { return nil }
            root = root.splitLast().parent
        }
    }

    /// A one-line description of a temporary file.
    func details(of name: POSIXPath, _ origin: TemporaryFileOrigin?) -> String {
        switch origin {
        case .inUse: "in use by a process that has the store open"
        case .orphaned: "orphaned: its process has ended; the next process that writes to the store removes it"
        case .unrecorded: "orphaned: its process has ended and no record says where it is; no store removes it"
        case nil where FileKVStore.isTemporary(name) || VaultCrypt.isTemporary(name):
            "of a write that goes on or was interrupted; the next opening or change of the store removes it"
        case nil where name.isMovedFile:
            "of a move into the store that goes on or was interrupted; no store removes it, it may be the only copy"
        case nil: "no store below the checked directory has recorded it; no store removes it"
        }
    }
}
