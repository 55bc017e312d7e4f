import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation

/// The stores that every check runs on.
enum StoreKind: String, CaseIterable, CustomStringConvertible {
    case diskStoreOnDisk = "DiskFileStore on the disk"
    case diskStoreInMemory = "DiskFileStore on InMemoryFileSystem"
    case inMemoryStore = "InMemoryFileStore"

    var description: String { rawValue }

    /// The capabilities of this store.
    var capabilities: Set<ConformanceCapability> {
        self == .inMemoryStore ? [.emptyDirectories] : [.emptyDirectories, .fileURLs]
    }

    /// Whether the file system of the store has attributes; prints a notice if not.
    func hasAttributes() async throws -> Bool {
        var hasAttributes = true
        try await withStore { store in
            do {
                try await store.save(Data(), to: "probe", attributes: ["a": "1"])
            } catch let error as FileStoreError where error.code == .unsupported {
                hasAttributes = false
                print("NOT RUN: attributes of files of \(self)")
            }
        }
        return hasAttributes
    }

    /// Calls `body` with an empty store.
    func withStore(_ body: (any StreamingFileStoring) async throws -> Void) async throws {
        switch self {
        case .diskStoreOnDisk:
            let directory = try TemporaryDirectory()
            try await body(DiskFileStore(root: directory.url("store")))
            withExtendedLifetime(directory) {}
        case .diskStoreInMemory:
            let store = DiskFileStore(
                root: URL(filePath: "/data/store"), fileSystem: InMemoryFileSystem(), sources: SystemFileSystem())
            try await body(store)
        case .inMemoryStore:
            try await body(InMemoryFileStore())
        }
    }
}

/// Whether an error is that of a file store with this code.
func hasCode(_ code: FileStoreError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? FileStoreError)?.code == code }
}
