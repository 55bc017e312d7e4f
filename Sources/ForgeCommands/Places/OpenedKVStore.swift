import ArgumentParser
import ForgeFileSystem
import ForgeStorage
import Foundation
import Logging
import Synchronization
import SystemPackage

/// The location of a key-value store.
struct KVStoreArgument: ParsableArguments {
    @Argument(help: "The directory of the store, as DIR or kv:DIR, or etcd://host:2379/prefix.") var path: String

    private var url: URL { get throws(ValidationError) { try Home.directory(path, .keyValue) } }

    func validate() throws {
        guard let server = try StoreURL.parsed(path) else {
            _ = try url
            return
        }
        guard server.isKeyValue else {
            throw ValidationError("s3:// is a file store, which forge file reads and changes")
        }
    }

    /// Opens the store and calls `body`; if the store is damaged, throws after `body` has returned.
    ///
    /// A store on servers is never missing: without keys it is empty.
    ///
    /// - Parameters:
    ///   - access: Whether the store is only read, or also written.
    ///   - mustExist: Whether a missing store is an error even for writing, which would create it.
    ///   - body: The work of the command.
    /// - Throws: ``CommandFailure`` about the damage, or the error of `body`.
    func withStore(
        _ access: FileKVStore.Access, mustExist: Bool = false, _ body: (OpenedKVStore) async throws -> Void
    ) async throws {
        if let server = try StoreURL.parsed(path) { return try await body(OpenedKVStore(server.openKeyValueStore())) }
        let url = try self.url
        if mustExist { try Self.requireLog(in: url) }
        let (store, damage) = try access == .readOnly ? Self.open(url, access) : Self.openShared(url)
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

    /// Opens the store in a directory; returns it with descriptions of the damage found.
    ///
    /// With ``FileKVStore/Access/readOnly`` no file is created or locked. `onRefusal` is called with the error of a
    /// repair that failed, so that the store refuses writes.
    static func open(
        _ url: URL, _ access: FileKVStore.Access, sharing: FileKVStore.Sharing = .exclusive,
        onRefusal: @escaping @Sendable (KVStoreError) -> Void = { _ in }
    ) throws -> (store: FileKVStore, damage: [String]) {
        let damage = Mutex<[String]>([])
        var options = FileKVStore.Options(
            logger: Logger(label: "forge") { _ in SwiftLogNoOpLogHandler() },
            onIssue: { issue in
                switch issue {
                case .damage(let report): damage.withLock { $0.append("\(report)") }
                case .missingRecords: damage.withLock { $0.append("\(issue)") }
                case .readOnly(let error): onRefusal(error)
                // These lose no acknowledged data.
                case .tornTail, .undecodable, .compactionFailed, .sharing, .assignment: break
                }
            })
        options.access = access
        options.sharing = sharing
        // Only the app that reads the values knows its limit.
        options.maximumValueSizeInBytes = .max
        let path = try POSIXPath(url)
        if access != .readOnly {
            try requireOutsideBackups(path.appending(FileKVStore.logName), path.shown)
            try requireNoOtherLog(in: url)
        }
        do {
            let store = try FileKVStore(at: url, options: options)
            return (store, damage.withLock { $0 })
        } catch let error as KVStoreError where access == .readOnly && (error.code == .noStore || error.isBelowFile) {
            throw CommandFailure.noStore("key-value store", at: path)
        }
    }

    /// Throws if a directory contains no store: opening it for writing would create one.
    private static func requireLog(in url: URL) throws {
        let path = try POSIXPath(url)
        do throws(FileSystemError) {
            if try SystemFileSystem().exists(path.appending(FileKVStore.logName)) { return }
        } catch  where error.errno == .notDirectory {}
        throw CommandFailure.noStore("key-value store", at: path)
    }

    /// Throws if the file `log` in a directory does not belong to a key-value store: opening the store would set the
    /// file aside.
    private static func requireNoOtherLog(in url: URL) throws {
        if let reason = try reasonForOtherLog(in: url) { throw CommandFailure(reason) }
    }

    /// The reason why a directory must not be opened as a key-value store; nil if it can be.
    private static func reasonForOtherLog(in url: URL) throws -> String? {
        let fileSystem = SystemFileSystem()
        let path = try POSIXPath(url)
        do throws(FileSystemError) {
            let directory = try fileSystem.openDirectory(path)
            defer { fileSystem.discard(directory) }
            let scope = try StoreScope(of: directory, on: fileSystem)
            // Opening marks the directory: a creation was interrupted before that, or the device was full.
            if scope.isUnknown {
                if try hasOnlyStoreFiles(directory) { return nil }
                return try "\(path.shown) is \(placeInUnknownStore(directory))"
            }
            guard try scope.role(of: FileKVStore.logName, at: directory, on: fileSystem) != .log else { return nil }
            return "\(path.shown) is not a key-value store: its file log belongs to another program"
        } catch {
            guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
            return nil  // There is no log, or opening the store reports the error.
        }
    }

    /// Whether a directory contains no files other than those of a key-value store.
    private static func hasOnlyStoreFiles(_ directory: Descriptor) throws(FileSystemError) -> Bool {
        let fileSystem = SystemFileSystem()
        for entry in try fileSystem.entries(of: directory) {
            let role = try KeyValueLayout.role(of: entry.name) { () throws(FileSystemError) in
                let file = try fileSystem.openRegularFile(entry.name, at: directory).descriptor
                return try fileSystem.closing(file) { () throws(FileSystemError) in
                    try fileSystem.readBytes(of: file, at: 0, count: 4096)
                }
            }
            guard role != .content || entry.name == StoreMarker.temporaryName(of: .keyValue) else { return false }
        }
        return true
    }

    /// Opens the store in a directory for writing; if other processes have it open, shares it with them.
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

/// A key-value store that a command has opened, on this machine or on servers.
struct OpenedKVStore: Sendable {
    /// The maximum number of concurrent requests for values.
    private static let concurrency = 16
    /// The minimum number of entries that a page is requested with.
    private static let minimumPageCount = 16
    /// The maximum number of entries or names that a page is requested with.
    private static let maximumPageCount = 1024
    /// The size of the values of a page, in bytes, that the number of entries is adapted to.
    private static let targetPageSize = 4 << 20
    /// The maximum number of names of a local store that are listed at once. Listing a slice examines all names.
    private static let sliceCount = 1 << 17

    let store: any CommandKVStore

    /// The store if it is local; reading its values needs no requests.
    private let local: FileKVStore?
    private let sliceCount: Int

    /// Wraps a local store, whose writes become durable with ``finish()``.
    init(_ local: FileKVStore, sliceCount: Int = Self.sliceCount) {
        store = LocalAsyncKVStore(local, durability: .processEnd)
        self.local = local
        self.sliceCount = sliceCount
    }

    /// Wraps a store on servers.
    init(_ store: any CommandKVStore) {
        self.store = store
        local = nil
        sliceCount = Self.sliceCount
    }

    // MARK: Reading

    /// The value under a name, with its revision; nil if the name is absent.
    func entry(named name: String) async throws -> KVEntry? {
        try await store.entry(named: name)
    }

    /// A value that was found under a name.
    struct Found: Hashable, Sendable {
        let entry: KVEntry
        /// Whether it ends with a lease.
        let isLeased: Bool

        /// Whether the store keeps these bytes under the name without a write.
        func keeps(_ bytes: [UInt8]) -> Bool { !isLeased && entry.bytes == bytes }
    }

    /// The values under several names, in the order of the names.
    func entries(named names: [String]) async throws -> [Found?] {
        var found = [Found?](repeating: nil, count: names.count)
        guard local == nil else {
            for (index, name) in names.enumerated() { found[index] = try await find(name) }
            return found
        }
        try await withThrowingTaskGroup(of: (Int, Found?).self) { group in
            for (index, name) in names.enumerated() {
                if index >= Self.concurrency, let (index, value) = try await group.next() { found[index] = value }
                group.addTask { (index, try await find(name)) }
            }
            for try await (index, value) in group { found[index] = value }
        }
        return found
    }

    private func find(_ name: String) async throws -> Found? {
        try await store.leasedEntry(named: name).map { Found(entry: $0.entry, isLeased: $0.isLeased) }
    }

    /// Whether the store has no names.
    func isEmpty() async throws -> Bool {
        if let local { return try local.names(after: nil, limit: 1).isEmpty }
        return try await store.keys(prefix: "", after: nil, limit: 1).names.isEmpty
    }

    /// The identifier of the cluster that holds the store; nil for a local store. Stores in one cluster have different
    /// prefixes.
    func cluster() async throws -> Substring? {
        try await store.entries(prefix: "", after: nil, limit: 1, at: nil).storeID?.split(separator: " ").first
    }

    /// All names, in the order of their bytes.
    func names() async throws -> [String] {
        var names: [String] = []
        if let local {
            try Self.forEachName(of: local, inSlicesOf: sliceCount) { names.append($0) }
            return names
        }
        var hasMore = true
        while hasMore {
            try Interruption.check()
            let page = try await store.keys(prefix: "", after: names.last, limit: Self.maximumPageCount)
            names += page.names
            hasMore = page.hasMore && !page.names.isEmpty
        }
        return names
    }

    /// Calls `body` with every name of a local store, in the order of their bytes; the names are listed in slices.
    static func forEachName(
        of store: FileKVStore, inSlicesOf count: Int = Self.sliceCount, _ body: (String) throws -> Void
    ) throws {
        var last: String?
        repeat {
            try Interruption.check()
            let names = try store.names(after: last, limit: count)
            for name in names { try body(name) }
            last = names.count < count ? nil : names.last
        } while last != nil
    }

    /// Calls `body` with every name and value, in the order of the bytes of the names.
    ///
    /// A store on servers is read at one revision. `foreign` is called once with each of its keys that is not a valid
    /// name and therefore belongs to another program.
    func forEach(
        _ body: (String, KVEntry) async throws -> Void,
        foreign: (POSIXPath) async throws -> Void = { _ in }
    ) async throws {
        if let local {
            var names = try local.names(after: nil, limit: sliceCount)
            while let last = names.last {
                for name in names {
                    try Interruption.check()
                    if let entry = try local.entry(named: name) { try await body(name, entry) }
                }
                names = names.count < sliceCount ? [] : try local.names(after: last, limit: sliceCount)
            }
            return
        }
        var foreignKeys: Set<[UInt8]> = []
        var limit = Self.minimumPageCount
        var position: (last: String?, revision: UInt64?) = (nil, nil)
        while true {
            try Interruption.check()
            let page: AsyncKVEntryPage
            do throws(KVStoreError) {
                page = try await store.entries(
                    prefix: "", after: position.last, limit: limit, at: position.revision)
            } catch {
                // A smaller page may fit into a response and into the deadline.
                guard [.unavailable(.server), .tooLarge, .timeout].contains(error.code), limit > Self.minimumPageCount
                else {
                    throw error
                }
                limit = Self.minimumPageCount
                continue
            }
            for (name, entry) in page.entries { try await body(name, entry) }
            for key in page.foreignKeys where foreignKeys.insert(key).inserted { try await foreign(POSIXPath(key)) }
            guard page.hasMore else { return }
            guard let last = page.entries.last else {
                throw KVStoreError(.unavailable(.server), .keys, detail: "an empty page")
            }
            position = (last.name, page.revision)
            let size = page.entries.reduce(1) { $0 + $1.entry.bytes.count }
            // Small values may be followed by large ones.
            let fitting = max(page.entries.count * Self.targetPageSize / size, Self.minimumPageCount)
            limit = min(fitting, limit * 2, Self.maximumPageCount)
        }
    }

    // MARK: Writing

    /// The maximum number of changes in a batch.
    func maximumBatchSize() async throws -> Int {
        try await store.capabilities().maximumBatchSize ?? .max
    }

    /// Applies a batch.
    func commit(_ batch: KVBatch) async throws {
        _ = try await store.commit(batch, timeToLive: nil)
    }

    /// Removes a name.
    func remove(_ name: String) async throws {
        // On a full device, a local store has room for a removal, but not for a batch.
        if let local { return try local.removeValue(named: name) }
        var batch = KVBatch()
        batch.append(.remove(name: name))
        try await commit(batch)
    }

    /// Makes all writes durable; has no effect for servers, which acknowledge only durable writes.
    func finish() throws {
        try local?.synchronize()
    }

    /// Closes a local store.
    func close() throws {
        try local?.close()
    }
}
