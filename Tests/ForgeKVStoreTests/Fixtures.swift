import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Logging
import Synchronization
import SystemPackage
import TestDepth
@testable import ForgeKVStore

/// A directory on disk for one test, removed when the object is released.
final class TemporaryDirectory: Sendable {
    let url: URL

    init() {
        url = FileManager.default.temporaryDirectory.appending(path: "forge-kv-\(UUID().uuidString)")
    }

    deinit {
        do { try FileManager.default.removeItem(at: url) } catch {}
    }
}

/// Records the issues that a store reports.
final class IssueRecorder: Sendable {
    private let recorded = Mutex<[KVStoreIssue]>([])

    var issues: [KVStoreIssue] { recorded.withLock { $0 } }
    var descriptions: [String] { issues.map(\.description) }

    func record(_ issue: KVStoreIssue) { recorded.withLock { $0.append(issue) } }

    var damage: [KVDamageReport] {
        issues.compactMap { issue in
            guard case .damage(let report) = issue else { return nil }
            return report
        }
    }

    func options(
        compactionFloorInBytes: Int = 1 << 20, access: FileKVStore.Access = .readWrite
    ) -> FileKVStore.Options {
        var options = FileKVStore.Options(
            compactionFloorInBytes: compactionFloorInBytes,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }), onIssue: record)
        options.compactsInBackground = false
        options.access = access
        return options
    }
}

/// A log in an in-memory file system, whose bytes a test may read and change.
struct LogFixture {
    let fileSystem = InMemoryFileSystem()
    let path: POSIXPath = "/store"

    func open(_ recorder: IssueRecorder = IssueRecorder()) throws -> FileKVStore {
        try FileKVStore(at: path, fileSystem: fileSystem, options: recorder.options())
    }

    /// The log, without the space reserved after it.
    func bytes() throws -> [UInt8] {
        var bytes = try fileSystem.readFile("/store/log")
        guard bytes.count % Int(LogSpace.Options().granularity) == 0 else { return bytes }
        // A loop over a pointer: debug builds do not inline the subscript of an array.
        let end = bytes.withUnsafeBufferPointer { bytes in
            var end = bytes.count
            while end > 0, bytes[end &- 1] == 0 { end = end &- 1 }
            return end
        }
        bytes.removeLast(bytes.count - end)
        return bytes
    }

    func replace(_ bytes: [UInt8]) throws {
        try fileSystem.makeDirectories(path)
        try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
            try fileSystem.replaceFile(
                "log", at: directory, .replacing, permissions: .ownerReadWrite, durability: .none
            ) {
                (descriptor) throws(FileSystemError) in
                try fileSystem.writeBytes(bytes, to: descriptor)
            }
        }
    }

    func names() throws -> [String] {
        try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
            try fileSystem.entries(of: directory).map { String($0.name) }.sorted()
        }
    }
}

extension KVRawStoring {
    /// All integers in the store, by name.
    func integers() throws -> [String: Int] {
        var found: [String: Int] = [:]
        for name in try keys() { found[name] = try read(KVKey<Int>(name)) }
        return found
    }
}

extension [UInt8] {
    /// Replaces the bytes from `offset` on by those of a number, in little-endian order.
    mutating func replace(at offset: Int, integer: some FixedWidthInteger & BitwiseCopyable) {
        withUnsafeMutableBytes {
            $0.storeBytes(of: integer.littleEndian, toByteOffset: offset, as: type(of: integer))
        }
    }
}

extension LogRecord {
    /// A record without a batch.
    enum PlainRecord {
        case set(KeyName, [UInt8])
        case remove(KeyName)
        case removeAll
        case flushed
    }

    /// Appends a record in the form that the log would write.
    static func append(
        _ change: PlainRecord, flags: UInt8 = 0, sequence: UInt64, unflushedCount: UInt32, checksum: CRC32C,
        to bytes: inout [UInt8]
    ) {
        let (code, name, value): (Code, KeyName, [UInt8]) =
            switch change {
            case .set(let name, let value): (.set, name, value)
            case .remove(let name): (.remove, name, [])
            case .removeAll: (.removeAll, KeyName(""), [])
            case .flushed: (.flushed, KeyName(""), [])
            }
        var record = [UInt8](repeating: 0, count: size(nameCount: name.count, valueSize: value.count))
        record.withUnsafeMutableBytes { record in
            value.withUnsafeBytes { value in
                name.withBytes { name in
                    write(
                        code, flags: flags, name, value, sequence: sequence, unflushedCount: unflushedCount,
                        checksum: checksum, to: record)
                }
            }
        }
        bytes += record
    }
}

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

extension FailingCall {
    /// The error numbers of a run: one by default, all in a deep run.
    static let testedErrnos: [Errno] = TestDepth.isDeep ? errnos : [.ioError]

    /// The distance between runs, prime to the number of modes: a default run fails two of seven calls, one of them
    /// once and the other permanently.
    static let testedStep = TestDepth.limit(7, deep: 1)

    /// The first run of one of several tests, different for each of seven: all begin with the calls that open a store.
    static func testedStart(_ place: Int?) -> Int { (place ?? 0) % testedStep }
}

extension FailingCallReport {
    /// The number of runs in both modes with these error numbers and the tested step.
    func testedRunCount(_ errnos: [Errno] = FailingCall.testedErrnos, from start: Int = 0) -> Int {
        (callCount * 2 * errnos.count - start + FailingCall.testedStep - 1) / FailingCall.testedStep
    }
}
