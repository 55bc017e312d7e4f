import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import SystemPackage

/// A file system whose operations fail according to a rule, before they have any effect.
final class FailingFileSystem: InterceptingFileSystem {
    typealias Rule = @Sendable (FileSystemOperation, _ path: POSIXPath?) -> Errno?

    /// The operations that no rule concerns.
    private static let sound: Set<FileSystemOperation> = [
        .close, .seek, .copyRange, .setPermissions, .setOwner, .setTimes, .listExtendedAttributes,
        .readExtendedAttribute, .setExtendedAttribute, .createNode, .createSymbolicLink, .readSymbolicLink, .link,
        .removeDirectory,
    ]

    let forwarded: any POSIXFileSystem
    private let rule = Mutex<Rule?>(nil)
    private let paths = Mutex<[Descriptor: POSIXPath]>([:])

    init(_ base: any POSIXFileSystem = InMemoryFileSystem()) {
        forwarded = base
    }

    /// Sets the rule for later calls; nil lets all calls succeed.
    func fail(_ newRule: Rule?) { rule.withLock { $0 = newRule } }

    /// Fails every operation of a kind.
    func fail(_ operation: FileSystemOperation, _ errno: Errno = .ioError) {
        fail { candidate, _ in candidate == operation ? errno : nil }
    }

    private func path(_ descriptor: Descriptor) -> POSIXPath? { paths.withLock { $0[descriptor] } }

    private func check(_ operation: FileSystemOperation, _ path: POSIXPath?) throws(FileSystemError) {
        if let errno = rule.withLock({ $0 })?(operation, path) { throw FileSystemError(operation, errno, path: path) }
    }

    func intercept(_ call: InterceptedCall) throws(FileSystemError) {
        guard !Self.sound.contains(call.operation) else { return }
        try check(call.operation, call.path ?? call.descriptor.flatMap(path))
    }

    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try check(.open, path)
        let descriptor = try forwarded.open(
            path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
        paths.withLock { $0[descriptor] = path }
        return descriptor
    }

    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try check(.duplicate, path(descriptor))
        let duplicate = try forwarded.duplicate(descriptor)
        paths.withLock { $0[duplicate] = $0[descriptor] }
        return duplicate
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        let path = path(descriptor)
        try check(.map, path)
        return FileMapping(
            watching: try forwarded.map(descriptor, at: offset, count: count),
            writeBack: { [self] (mapping) throws(FileSystemError) in
                try check(.writeBack, path)
                try mapping.writeBack()
            })
    }

    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try check(.rename, path)
        try forwarded.rename(path, at: directory, to: newPath, at: newDirectory, mode)
        paths.withLock { paths in paths = paths.mapValues { $0 == path ? newPath : $0 } }
    }
}
