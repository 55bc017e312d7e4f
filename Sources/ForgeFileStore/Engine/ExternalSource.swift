import ForgeFileSystem
import Foundation
import SystemPackage

/// A file outside a store that is to be copied or moved into it.
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

    /// Opens the file, checks that it is a regular one and closes it after `body`.
    ///
    /// Opening never waits, not even for the writer of a FIFO. What is moved is opened without following a link, since
    /// it is the name that will be taken away.
    func withFile<Result>(
        _ body: (_ file: Descriptor, FileStatus, _ directory: Descriptor, _ name: POSIXPath) throws -> Result
    ) throws -> Result {
        let (parent, name) = path.splitLast()
        let directory = try attempt { () throws(FileSystemError) in
            try fileSystem.open(parent.isEmpty ? "." : parent, .readOnly, options: [.directory])
        }
        defer { fileSystem.discard(directory) }
        let file = try attempt { () throws(FileSystemError) in
            // An empty name is the root directory's.
            guard !name.isEmpty else { throw FileSystemError(.open, .isDirectory, path: path) }
            return try fileSystem.open(
                name, at: directory, .readOnly,
                options: operation == .move ? [.noFollow, .nonBlocking] : [.nonBlocking])
        }
        defer { fileSystem.discard(file) }
        let status = try attempt { () throws(FileSystemError) in try fileSystem.status(of: .descriptor(file)) }
        guard status.type == .regular else { throw failure(.notRegular, nil) }
        return try body(file, status, directory, name)
    }

    /// Whether the name still leads to the file that was opened.
    func isUnchanged(
        _ status: FileStatus, _ name: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> Bool {
        do {
            let now = try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
            return now.inode == status.inode && now.device == status.device
        } catch  where error.errno == .noSuchFileOrDirectory {
            return false
        }
    }

    /// Reads a piece of the file; 0 bytes at its end.
    func read(
        _ file: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(FileStoreError) -> Int {
        do {
            return try fileSystem.readFully(file, into: buffer, at: offset)
        } catch {
            throw failure(.unreadable, error)
        }
    }

    /// Takes the file's name away, durably.
    func remove(_ name: POSIXPath, at directory: Descriptor) throws(FileStoreError) {
        do {
            try fileSystem.unlink(name, at: directory)
        } catch {
            throw failure(.notRemoved, error)
        }
        do {
            try fileSystem.synchronize(directory, .full)
        } catch {
            throw FileStoreError(.durabilityUnknown, operation, key: key, underlying: error)
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
            throw failure(problem, error)
        }
    }
}

/// What stores do that have no way of their own to copy a file in.
extension ExternalSource {
    static func read(_ url: URL, _ operation: FileStoreError.Operation, key: String) async throws -> Data {
        let source = try ExternalSource(url, on: SystemFileSystem(), operation, key: key)
        return try await Cancellation.offload { _ in
            try source.withFile { (file, _, _, _) in
                do {
                    return Data(try source.fileSystem.readContents(of: file))
                } catch {
                    throw source.failure(.unreadable, error)
                }
            }
        }
    }

    static func remove(_ url: URL, key: String) async throws {
        let source = try ExternalSource(url, on: SystemFileSystem(), .move, key: key)
        // The file is stored already, so a cancelled task does not stop this half-way.
        try await BlockingWork.run { () throws(any Error) in
            try source.withFile { (_, _, directory, name) in try source.remove(name, at: directory) }
        }
    }
}
