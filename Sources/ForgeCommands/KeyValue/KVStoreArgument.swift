import ArgumentParser
import ForgeStorage
import Foundation
import Logging
import Synchronization
import SystemPackage

/// The location of the store.
struct KVStoreArgument: ParsableArguments {
    @Argument(help: "The directory of the store.") var path: String

    private var url: URL { URL(fileURLWithPath: path) }

    func validate() throws {
        try requirePath(path, of: "store")
    }

    /// Opens the store for `body`; if the store is damaged, throws after `body` has returned.
    ///
    /// - Parameters:
    ///   - access: Read-only access, or creation of a missing store.
    ///   - body: The work of the command.
    /// - Throws: ``CommandFailure`` about the damage, or the error of `body`.
    func withStore(_ access: FileKVStore.Access, _ body: (FileKVStore) throws -> Void) throws {
        let (store, damage) = try open(access)
        guard !damage.isEmpty else { return try body(store) }
        let text = "the store at \(try POSIXPath(url)) is damaged: \(Self.summary(of: damage))"
        do {
            try body(store)
        } catch let failure as CommandFailure {
            throw CommandFailure("\(failure); \(text)", failure.status)
        }
        throw CommandFailure(text)
    }

    /// Opens the store; returns it with the damage found.
    ///
    /// With ``FileKVStore/Access/readOnly`` nothing is created or locked.
    func open(_ access: FileKVStore.Access) throws -> (store: FileKVStore, damage: [String]) {
        try Self.open(url, access)
    }

    /// Opens the store in a directory; returns it with the damage found.
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
        do {
            let store = try FileKVStore(at: url, options: options)
            return (store, damage.withLock { $0 })
        } catch let error as KVStoreError where access == .readOnly && (error.code == .noStore || error.isBelowFile) {
            throw CommandFailure.noStore("key-value store", at: try POSIXPath(url))
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
