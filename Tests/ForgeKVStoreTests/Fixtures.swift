import ForgeFileSystem
import ForgeKVStore
import Foundation
import Logging
import Synchronization
import SystemPackage

/// A directory of its own on the real disk, removed when the fixture goes.
final class TemporaryDirectory: Sendable {
    let url: URL

    init() {
        url = FileManager.default.temporaryDirectory.appending(path: "forge-kv-\(UUID().uuidString)")
    }

    deinit {
        do { try FileManager.default.removeItem(at: url) } catch {}
    }
}

/// What a store reported.
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

    func options(compactionFloorInBytes: Int = 1 << 20) -> FileKVStore.Options {
        FileKVStore.Options(
            compactionFloorInBytes: compactionFloorInBytes,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }), onIssue: record)
    }
}

/// A log in a file system in memory, whose bytes a test may look at and change.
struct LogFixture {
    let fileSystem = InMemoryFileSystem()
    let path: POSIXPath = "/store"

    func open(_ recorder: IssueRecorder = IssueRecorder()) throws -> FileKVStore {
        try FileKVStore(at: path, fileSystem: fileSystem, options: recorder.options())
    }

    func bytes() throws -> [UInt8] { try fileSystem.readFile("/store/log") }

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

extension KVStoring {
    /// All integers in the store by name.
    func integers() throws -> [String: Int] {
        var found: [String: Int] = [:]
        for name in try keys() { found[name] = try read(KVKey<Int>(name)) }
        return found
    }
}
