import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage

/// A store on disk or in memory, and its root as other programs see it.
final class WatchedRoot: Sendable {
    enum Kind: CaseIterable, Sendable {
        case disk, memory
    }

    let fileSystem: any POSIXFileSystem
    let store: DiskFileStore
    /// The directory of the root `store`.
    let base: POSIXPath
    private let directory: TemporaryDirectory?

    init(_ kind: Kind) throws {
        switch kind {
        case .disk:
            let directory = try TemporaryDirectory()
            self.directory = directory
            fileSystem = SystemFileSystem()
            base = POSIXPath(directory.url.path)
        case .memory:
            directory = nil
            let memory = InMemoryFileSystem()
            fileSystem = memory
            base = "/base"
            try memory.createDirectory(base)
        }
        store = DiskFileStore(
            root: URL(base.appending("store")), fileSystem: fileSystem, options: .init(durability: .none))
    }

    /// The path of a name beside the root.
    func path(_ name: String) -> POSIXPath { base.appending(POSIXPath(name)) }

    /// A second store with the same root.
    func other() -> DiskFileStore {
        DiskFileStore(root: URL(path("store")), fileSystem: fileSystem, options: .init(durability: .none))
    }

    /// Writes a file beside the root, or below it, in place.
    func write(_ text: String, to name: String) throws {
        let file = try fileSystem.open(path(name), .writeOnly, options: [.create, .truncate])
        try write(text, to: file)
        try fileSystem.close(file)
    }

    func write(_ text: String, to file: Descriptor) throws {
        try Data(text.utf8).withUnsafeBytes { (bytes) throws in try fileSystem.writeFully(file, from: bytes) }
    }

    func makeDirectory(_ name: String) throws { try fileSystem.createDirectory(path(name)) }

    func rename(_ name: String, to new: String, _ mode: RenameMode = .replacing) throws {
        try fileSystem.rename(path(name), to: path(new), mode)
    }
}
