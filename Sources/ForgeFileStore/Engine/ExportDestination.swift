import ForgeFileSystem
import Foundation
import SystemPackage

/// The path of a file outside the store, to which a file of the store is exported.
struct ExportDestination {
    let fileSystem: any POSIXFileSystem
    private let path: POSIXPath
    private let key: String

    init(_ url: URL, on fileSystem: any POSIXFileSystem, key: String) throws(FileStoreError) {
        do {
            path = try POSIXPath(url)
        } catch {
            throw FileStoreError(.invalidDestination(.notFileURL), .export, key: key, underlying: error)
        }
        self.fileSystem = fileSystem
        self.key = key
    }

    /// Creates or replaces the file by what `content` writes to a descriptor; its old content stays if that fails.
    ///
    /// A symbolic link is replaced itself, never followed.
    func replace(
        overwrite: Bool, durability: Durability, content: (Descriptor) throws(FileSystemError) -> Void
    ) throws(FileStoreError) {
        let (parent, name) = path.splitLast()
        do throws(FileSystemError) {
            // Only `/` (or an empty path) has no last component.
            guard !name.isEmpty else { throw FileSystemError(.open, .isDirectory) }
            try fileSystem.withDirectory(parent.isEmpty ? "." : parent) { (directory) throws(FileSystemError) in
                try requireReplaceable(name, at: directory, overwrite)
                try fileSystem.replaceFile(
                    name, at: directory, overwrite ? .replacing : .exclusive, permissions: .privateFile,
                    durability: durability, content: content)
            }
        } catch {
            // The failed call may have had a part of the path only, or that of the temporary file.
            var failure = error
            failure.path = path
            failure.destination = nil
            throw FileStoreError(Self.code(of: error), .export, key: key, underlying: failure)
        }
    }

    /// Before anything is copied; the rename checks it again.
    private func requireReplaceable(
        _ name: POSIXPath, at directory: Descriptor, _ overwrite: Bool
    ) throws(FileSystemError) {
        let status: FileStatus
        do {
            status = try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return
        }
        guard overwrite else { throw FileSystemError(.open, .fileExists) }
        guard status.type != .directory else { throw FileSystemError(.open, .isDirectory) }
        guard status.type == .regular || status.type == .symbolicLink else {
            throw FileSystemError(.open, .noSuchAddressOrDevice)
        }
    }

    private static func code(of error: FileSystemError) -> FileStoreError.Code {
        guard !error.isEffectVisible else { return .durabilityUnknown }
        return switch error.errno {
        case .noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels: .invalidDestination(.noDirectory)
        case .isDirectory: .invalidDestination(.isDirectory)
        case .noSuchAddressOrDevice: .invalidDestination(.notRegular)
        case .fileNameTooLong, .invalidArgument, .illegalByteSequence: .invalidDestination(.notFileURL)
        default: FileStoreError.Code(error, .export)
        }
    }
}
