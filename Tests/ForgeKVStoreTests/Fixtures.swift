import ForgeFileSystem
import Foundation
import Logging
import Synchronization
import SystemPackage

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
