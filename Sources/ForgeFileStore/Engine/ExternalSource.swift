import ForgeFileSystem
import Foundation
import SystemPackage

/// The path of a file outside the store; the file is to be copied or moved into the store.
struct ExternalSource {
    let fileSystem: any POSIXFileSystem
    let path: POSIXPath
    let operation: FileStoreError.Operation
    let key: String

    init(
        _ url: URL, on fileSystem: any POSIXFileSystem, _ operation: FileStoreError.Operation, key: String
    ) throws(FileStoreError) {
        do {
            path = try POSIXPath(url)
        } catch {
            throw FileStoreError(.invalidSource(.notFileURL), operation, key: key, underlying: error)
        }
        self.fileSystem = fileSystem
        self.operation = operation
        self.key = key
    }

    /// Opens the file and checks that it is a regular one.
    ///
    /// Opening never blocks, not even on a FIFO without a writer. The source of a move is opened without following a
    /// symbolic link, because the move would rename the link, not its target.
    func open() throws(FileStoreError) -> OpenSource {
        let (parent, name) = path.splitLast()
        let directory = try attempt { () throws(FileSystemError) in
            try fileSystem.open(parent.isEmpty ? "." : parent, .readOnly, options: [.directory])
        }
        do throws(FileStoreError) {
            let file = try attempt { () throws(FileSystemError) in
                // Only `/` (or an empty path) has no last component.
                guard !name.isEmpty else { throw FileSystemError(.open, .isDirectory, path: path) }
                return try fileSystem.open(
                    name, at: directory, .readOnly,
                    options: operation == .move ? [.noFollow, .nonBlocking] : [.nonBlocking])
            }
            do throws(FileStoreError) {
                let status = try attempt { () throws(FileSystemError) in
                    try fileSystem.status(of: .descriptor(file))
                }
                guard status.type == .regular else { throw failure(.notRegular, nil) }
                guard operation != .move || !name.isInternalToStore else { throw failure(.storeFile, nil) }
                return OpenSource(origin: self, file: file, status: status, directory: directory, name: name)
            } catch {
                fileSystem.discard(file)
                throw error
            }
        } catch {
            fileSystem.discard(directory)
            throw error
        }
    }

    func failure(_ problem: FileStoreError.SourceProblem, _ underlying: (any Error)?) -> FileStoreError {
        FileStoreError(.invalidSource(problem), operation, key: key, underlying: underlying)
    }

    private func attempt<Result>(_ body: () throws(FileSystemError) -> Result) throws(FileStoreError) -> Result {
        do {
            return try fileSystem.retryingInterrupts(body)
        } catch {
            let problem: FileStoreError.SourceProblem =
                switch error.errno {
                case .noSuchFileOrDirectory, .notDirectory: .notFound
                case .tooManySymbolicLinkLevels where operation == .move: .symbolicLink
                case .isDirectory, .noSuchAddressOrDevice: .notRegular
                default: .unreadable
                }
            // The failed call may have had a part of the path only.
            var error = error
            error.path = path
            throw failure(problem, error)
        }
    }
}

/// The default implementations of ``FileStoring`` for `copy` and `move`, built on `save`.
extension ExternalSource {
    /// Reads the whole content of the source of a copy.
    static func read(_ url: URL, key: String) async throws -> Data {
        try await SourceContent.copying(url, key: key) { try await $0.readUnchanged() }
    }

    /// Moves a file by reading it, saving it with `save`, and removing it.
    static func move(_ url: URL, key: String, save: (Data) async throws -> Void) async throws {
        try await SourceContent.moving(url, key: key) { try await save($0.readUnchanged()) }
    }
}
