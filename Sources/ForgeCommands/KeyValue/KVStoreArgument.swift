import ArgumentParser
import ForgeStorage
import Foundation
import Logging
import Synchronization
import SystemPackage

/// The location of the store.
struct KVStoreArgument: ParsableArguments {
    @Argument(help: "The directory of the store, or etcd://host:2379/prefix.") var path: String

    private var url: URL { URL(fileURLWithPath: path) }

    func validate() throws {
        guard let server = try StoreURL.parsed(path) else { return try requirePath(path, of: "store") }
        guard server.isKeyValue else {
            throw ValidationError("s3:// is a file store, which forge file reads and changes")
        }
    }

    /// Opens the store for `body`; if the store is damaged, throws after `body` has returned. A store on servers cannot
    /// be missing: one without keys is empty.
    ///
    /// - Parameters:
    ///   - access: Read-only access, or writing.
    ///   - mustExist: Whether a missing store is an error, instead of being created by writing.
    ///   - body: The work of the command.
    /// - Throws: ``CommandFailure`` about the damage, or the error of `body`.
    func withStore(
        _ access: FileKVStore.Access, mustExist: Bool = false, _ body: (OpenedKVStore) async throws -> Void
    ) async throws {
        if let server = try StoreURL.parsed(path) { return try await body(OpenedKVStore(server.openKeyValueStore())) }
        // Opening for writing would create a missing store.
        if mustExist { _ = try Self.open(url, .readOnly) }
        let (store, damage) = try Self.open(url, access)
        let opened = OpenedKVStore(store)
        guard !damage.isEmpty else { return try await body(opened) }
        let text = "the store at \(try POSIXPath(url)) is damaged: \(Self.summary(of: damage))"
        do {
            try await body(opened)
        } catch let failure as CommandFailure {
            throw CommandFailure("\(failure); \(text)", failure.status)
        }
        throw CommandFailure(text)
    }

    /// Opens the store in a directory; returns it with the damage found.
    ///
    /// With ``FileKVStore/Access/readOnly`` nothing is created or locked.
    static func open(
        _ url: URL, _ access: FileKVStore.Access, sharing: FileKVStore.Sharing = .exclusive
    ) throws -> (store: FileKVStore, damage: [String]) {
        let damage = Mutex<[String]>([])
        var options = FileKVStore.Options(
            logger: Logger(label: "forge") { _ in SwiftLogNoOpLogHandler() },
            onIssue: { issue in
                switch issue {
                case .damage(let report): damage.withLock { $0.append("\(report)") }
                case .missingRecords: damage.withLock { $0.append("\(issue)") }
                // A write throws these, or they lose no acknowledged data.
                case .tornTail, .readOnly, .undecodable, .compactionFailed, .sharing, .assignment: break
                }
            })
        options.access = access
        options.sharing = sharing
        // The limit is that of the app that reads the values.
        options.maximumValueSizeInBytes = .max
        if access != .readOnly { try requireNoOtherLog(in: url) }
        do {
            let store = try FileKVStore(at: url, options: options)
            return (store, damage.withLock { $0 })
        } catch let error as KVStoreError where access == .readOnly && (error.code == .noStore || error.isBelowFile) {
            throw CommandFailure.noStore("key-value store", at: try POSIXPath(url))
        }
    }

    /// Throws if a file named `log` in a directory is none of a key-value store: opening it would set it aside.
    private static func requireNoOtherLog(in url: URL) throws {
        let fileSystem = SystemFileSystem()
        let path = try POSIXPath(url)
        let role: FileRole
        do throws(FileSystemError) {
            let owner = try StoreEvidence(at: path, on: fileSystem)
            role = try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
                try owner.role(of: FileKVStore.logName, at: directory, on: fileSystem)
            }
        } catch {
            guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
            return  // There is no log, or opening the store reports the error.
        }
        guard role == .log else {
            throw CommandFailure("\(path.shown) is no key-value store: its file log is another program's")
        }
    }

    /// Opens the store in a directory for writing, beside processes that share it.
    static func openShared(_ url: URL) throws -> (store: FileKVStore, damage: [String]) {
        do {
            return try open(url, .readWrite)
        } catch let error as KVStoreError where error.isInUse {
            return try open(url, .readWrite, sharing: .shared)
        }
    }

    private static func summary(of damage: [String]) -> String {
        let shown = damage.prefix(3).joined(separator: "; ")
        return damage.count > 3 ? "\(shown); and \(damage.count - 3) more" : shown
    }
}

extension KVStoreError {
    /// Whether the path of the store, or a parent of it, is a file.
    fileprivate var isBelowFile: Bool { (underlying as? FileSystemError)?.errno == .notDirectory }
}
