import ForgeStorage
import SystemPackage

/// The file to which a command writes its output.
///
/// A regular file is replaced atomically and durably when the output is complete: the output is written to a new file
/// under a random name beside it. A file that is not regular, such as a FIFO, and standard output or standard error
/// through one of its paths, such as `/dev/stdout`, are written to directly.
final class OutputFile {
    private let fileSystem = SystemFileSystem()
    private let path: POSIXPath
    private let target: Target
    /// The file that is written to.
    private let descriptor: Descriptor
    private var isOpen = true
    /// Whether the output replaces a file.
    let isReplacement: Bool
    /// Whether `deinit` has to remove the new file.
    private var isUnfinished = true

    private enum Target {
        /// The name that the new file gets, its present name, and their directory.
        case replacement(of: POSIXPath, by: POSIXPath, in: Descriptor)
        /// A file that is not regular.
        case special
        /// Standard output or standard error.
        case standardStream
    }

    /// Begins an output.
    ///
    /// - Parameters:
    ///   - path: The absolute path of the file; links at its end are followed.
    ///   - name: The file in an error.
    /// - Throws: ``CommandFailure``, with nothing changed, if the file is in the directory of a store or belongs to one,
    ///   or is an open file behind a path of procfs. `FileSystemError`.
    init(at path: POSIXPath, named name: String) throws {
        let (end, stream) = try Self.resolved(path, name, on: fileSystem)
        self.path = end
        if let stream {
            (target, descriptor, isReplacement) = (.standardStream, stream, false)
            return
        }
        try requireNoStore(at: end, name)
        let status = try Self.status(of: end, on: fileSystem)
        guard status.map({ $0.type == .regular }) ?? true else {
            // There is nothing to tidy up, and the other end of a FIFO has to be waited for.
            try Interruption.endAtOnce()
            (target, descriptor, isReplacement) = (.special, try fileSystem.open(end, .writeOnly), false)
            return
        }
        isReplacement = status != nil
        let permissions = status?.permissions.withoutSetID ?? .ownerReadWrite
        let (parent, file) = end.splitLast()
        let directory = try fileSystem.open(parent, .readOnly, options: [.directory])
        do throws(FileSystemError) {
            let temporary: POSIXPath
            (temporary, descriptor) = try fileSystem.createTemporary(at: directory, permissions: permissions)
            target = .replacement(of: file, by: temporary, in: directory)
        } catch {
            fileSystem.discard(directory)
            // The error names a temporary file.
            throw FileSystemError(error.operation, error.errno, path: end)
        }
        // An error from here on runs `deinit`.
        try fileSystem.setPermissions(permissions, of: .descriptor(descriptor))
    }

    deinit {
        if isOpen, !isStandardStream { fileSystem.discard(descriptor) }
        guard case .replacement(_, let temporary, let directory) = target else { return }
        // The first failure is the one to report.
        if isUnfinished { do { try fileSystem.unlink(temporary, at: directory) } catch _ {} }
        fileSystem.discard(directory)
    }

    private var isStandardStream: Bool { if case .standardStream = target { true } else { false } }

    /// Writes bytes at the end.
    ///
    /// - Throws: `FileSystemError`. A file that is replaced is unchanged then; another one may have received the first
    ///   bytes.
    func write(_ bytes: [UInt8]) throws(FileSystemError) {
        do throws(FileSystemError) {
            try fileSystem.writeBytes(bytes, to: descriptor)
        } catch {
            throw error.named(path)
        }
    }

    /// Closes the file; one that is replaced has the new content durably on return.
    ///
    /// - Throws: `FileSystemError`.
    func finish() throws(FileSystemError) {
        guard !isStandardStream else { return }
        if case .replacement = target { try fileSystem.synchronize(descriptor, .full) }
        isOpen = false
        try fileSystem.close(descriptor)
        guard case .replacement(let name, let temporary, let directory) = target else { return }
        try fileSystem.moveIntoPlace(temporary, to: name, at: directory, .replacing, .full)
        isUnfinished = false
        try fileSystem.synchronize(directory, .full)
    }

    // MARK: Paths

    /// The file at the end of the links of a path; with the descriptor, if it is standard output or standard error.
    ///
    /// - Throws: ``CommandFailure`` for a link of procfs (`/proc/PID/fd/N`, proc_pid_fd(5)) to a regular file: it leads
    ///   to an open file, whose name says nothing about the file's further use.
    private static func resolved(
        _ path: POSIXPath, _ name: String, on fileSystem: SystemFileSystem
    ) throws -> (POSIXPath, Descriptor?) {
        let descriptors = Ancestry.identity(of: "/dev/fd")
        let procfs = try Self.status(of: "/proc/self", on: fileSystem)?.device
        var current = path
        for _ in 0..<40 {
            let (parent, file) = current.splitLast()
            if descriptors != nil, Ancestry.identity(of: parent) == descriptors {
                for stream in [1, 2] as [Int32] where file.bytes.elementsEqual("\(stream)".utf8) {
                    return (current, Descriptor(rawValue: stream))
                }
                try requireSpecial(current, name, on: fileSystem)
                return (current, nil)
            }
            guard let target = try Self.target(of: current, on: fileSystem) else { return (current, nil) }
            if try fileSystem.status(current, followsSymbolicLinks: false).device == procfs {
                try requireSpecial(current, name, on: fileSystem)
                return (current, nil)
            }
            current = target.isAbsolute ? target : parent.appending(target)
        }
        throw FileSystemError(.resolve, .tooManySymbolicLinkLevels, path: path)
    }

    private static func requireSpecial(_ path: POSIXPath, _ name: String, on fileSystem: SystemFileSystem) throws {
        guard try fileSystem.status(path).type == .regular else { return }
        throw CommandFailure("\(name) leads to a file that a process has open; choose another output", .usage)
    }

    /// The target of a link; nil if the path is none, or does not exist.
    private static func target(
        of path: POSIXPath, on fileSystem: SystemFileSystem
    ) throws(FileSystemError) -> POSIXPath? {
        do {
            return try fileSystem.readSymbolicLink(path)
        } catch  where error.errno == .invalidArgument || error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// The status of a file; nil if the file does not exist.
    private static func status(
        of path: POSIXPath, on fileSystem: SystemFileSystem
    ) throws(FileSystemError) -> FileStatus? {
        do throws(FileSystemError) {
            return try fileSystem.status(path)
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }
}
