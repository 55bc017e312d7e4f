import Crypto
import ForgeStorage
import Foundation
import SystemPackage

/// Copies keys and values between stores and lines of JSON.
struct KeyValueTransfer {
    private let arguments: TransferArguments
    private let log: TransferLog

    /// What `--delete` and `--verify` need of the source: its names, and the SHA-256 of their values.
    private typealias Names = [KeyName: SHA256Digest]

    init(_ arguments: TransferArguments, _ log: TransferLog) {
        self.arguments = arguments
        self.log = log
    }

    func run() async throws {
        try await requireSeparatePlaces()
        let (source, damage) = try KeyValueSource.open(arguments.source)
        for text in damage { try log.record(.fail, "", reason: "the source is damaged: \(text)") }
        if try await source.isEmpty() { throw empty }
        if log.progress.isVisible, let count = try await source.count() {
            log.progress.expect(.init(items: count))
        }
        let names =
            switch (arguments.dryRun, arguments.destination.scheme) {
            case (true, _): try await rehearse(source)
            case (false, .json): try await copyToLines(source)
            case (false, _): try await copyToStore(source)
            }
        if arguments.verify, !arguments.dryRun { try await verify(names) }
    }

    private func requireSeparatePlaces() async throws {
        let (from, to) = (arguments.source, arguments.destination)
        if let from = try from.server(), let to = try to.server() {
            var isNested = from.contains(to) || to.contains(from)
            if !isNested, from.mayContain(to) || to.mayContain(from) {
                // Different hosts may be members of one cluster.
                let clusters = (try await Self.cluster(of: from), try await Self.cluster(of: to))
                isNested = clusters.0 != nil && clusters.0 == clusters.1
            }
            guard !isNested else {
                throw CommandFailure("\(from.text) and \(to.text) contain one another", .usage)
            }
            return
        }
        guard
            try from.isStandardStream || to.isStandardStream || from.scheme.isServer || to.scheme.isServer
                || !Self.isSamePlace(from.url, to.url)
        else { throw CommandFailure("the source and the destination are the same", .usage) }
    }

    /// Whether two paths lead to the same directory or file; false if there is none.
    private static func isSamePlace(_ one: URL, _ other: URL) throws -> Bool {
        guard let identity = Ancestry.identity(of: try POSIXPath(one)) else { return false }
        return try identity == Ancestry.identity(of: POSIXPath(other))
    }

    private static func cluster(of place: StoreURL) async throws -> Substring? {
        try await OpenedKVStore(place.openKeyValueStore()).cluster()
    }

    private var empty: CommandFailure {
        CommandFailure("the source is empty: \(arguments.source.text); nothing was changed")
    }

    // MARK: Copying

    private func rehearse(_ source: KeyValueSource) async throws -> Names {
        if arguments.destination.scheme == .json { try LinesTarget.require(arguments.destination) }
        let present = try openPresent()
        let names = try await copy(source, to: { present }) { _ in }
        if let present, arguments.delete { try await deleteExtraneous(than: names, in: present) }
        return names
    }

    /// The destination of a dry run; nil if it does not exist, or is written anew.
    private func openPresent() throws -> OpenedKVStore? {
        do {
            guard case .store(let store) = try KeyValueSource.open(arguments.destination).0 else { return nil }
            return store
        } catch let failure as CommandFailure where failure.status == .notFound {
            return nil
        }
    }

    private func copyToStore(_ source: KeyValueSource) async throws -> Names {
        var opened: OpenedKVStore?
        var identity: DirectoryIdentity?
        let names: Names
        do {
            names = try await copy(source) {
                opened = try openDestination()
                identity = try destinationIdentity()
                return opened
            } store: {
                try await opened?.commit($0)
            }
            if let opened {
                try opened.finish()
                try requireSameDestination(identity)
            }
            if arguments.delete { try await deleteExtraneous(than: names, in: opened) }
        } catch {
            // The first error is the one to report.
            do { try opened?.close() } catch _ {}
            throw error
        }
        try opened?.close()
        return names
    }

    private func openDestination() throws -> OpenedKVStore {
        if let server = try arguments.destination.server() { return OpenedKVStore(try server.openKeyValueStore()) }
        let (store, damage) = try KVStoreArgument.openShared(arguments.destination.url)
        for text in damage { try log.record(.fail, "", reason: "the destination was damaged: \(text)") }
        return OpenedKVStore(store)
    }

    /// The identity of the directory of a local destination.
    private func destinationIdentity() throws -> DirectoryIdentity? {
        guard arguments.destination.scheme == .keyValue else { return nil }
        return Ancestry.identity(of: try POSIXPath(arguments.destination.url))
    }

    /// Throws if the path of the destination now leads to another directory, or to none: the store that was opened has
    /// the keys.
    private func requireSameDestination(_ identity: DirectoryIdentity?) throws {
        guard try destinationIdentity() == identity else {
            throw CommandFailure(
                "the destination was moved or replaced meanwhile, the keys are in the store that was opened: "
                    + arguments.destination.text, .partial)
        }
    }

    private func copyToLines(_ source: KeyValueSource) async throws -> Names {
        try LinesTarget.require(arguments.destination)
        // Its temporary file is created when an interruption is deferred, after the source was waited for.
        var opened: LinesTarget?
        let names = try await copy(source, to: { nil }) { batch in
            if opened == nil { opened = try LinesTarget(arguments.destination) }
            for case .set(let key, let bytes) in batch.changes { try opened?.set(key, bytes) }
        }
        guard var target = opened else { return names }
        if log.hasFailed, target.isReplacement {
            throw CommandFailure(
                "\(arguments.destination.text) was not replaced, because the source is incomplete", .partial)
        }
        try target.finish()
        return names
    }

    /// Copies every key.
    ///
    /// - Parameters:
    ///   - source: The keys and values.
    ///   - open: Opens the store in which equal values are looked for; nil to copy all. It is called before the first
    ///     value is stored: a source of which nothing can be read creates no store.
    ///   - store: Stores values.
    /// - Returns: The names, if they are needed later.
    /// - Throws: ``CommandFailure``, or the error of the source or of a store that concerns all keys.
    private func copy(
        _ source: KeyValueSource, to open: () async throws -> OpenedKVStore?,
        store: (KVBatch) async throws -> Void
    ) async throws -> Names {
        var names: Names = [:]
        var isEmpty = true
        var present: OpenedKVStore?
        var isOpen = false
        var batch = KeyValueBatch(limit: .max)
        try await source.forEach { key, result in
            isEmpty = false
            let bytes: [UInt8]
            do throws(CommandFailure) {
                bytes = try result.get()
            } catch {
                return try log.record(.fail, key, reason: "\(error)")
            }
            guard key.utf8.count <= KVKey<Bool>.maximumNameLength else {
                return try log.record(.fail, key.shortened(to: 80), reason: "the name is too long")
            }
            if !isOpen {
                isOpen = true
                present = try await open()
                batch = try await KeyValueBatch(limit: present?.maximumBatchSize() ?? .max)
            }
            if arguments.delete || arguments.verify { names[KeyName(key)] = SHA256.hash(data: bytes) }
            if batch.refuses(key, bytes) {
                try await copy(batch, to: present, store)
                batch.removeAll()
            }
            batch.append(key, bytes)
        }
        try await copy(batch, to: present, store)
        guard !isEmpty else { throw empty }
        return names
    }

    private func copy(
        _ batch: KeyValueBatch, to present: OpenedKVStore?, _ store: (KVBatch) async throws -> Void
    ) async throws {
        let old = try await present?.entries(named: batch.items.map(\.key))
        var changes = KVBatch()
        for (index, item) in batch.items.enumerated() where old?[index]?.keeps(item.bytes) != true {
            changes.append(.set(name: item.key, bytes: item.bytes))
        }
        var failures: [KeyName: String] = [:]
        do {
            if !changes.changes.isEmpty { try await store(changes) }
        } catch let error where Self.isAboutTheItems(error) {
            failures = try await storeOneByOne(changes, store)
        }
        for (index, item) in batch.items.enumerated() {
            let old = old?[index]
            if let reason = failures[KeyName(item.key)] {
                try log.record(.fail, item.key, reason: reason)
            } else {
                let isKept = old?.keeps(item.bytes) == true
                let action = old == nil ? TransferLog.Action.copy : isKept ? .equal : .replace
                try log.record(action, item.key, bytes: Int64(item.bytes.count))
            }
        }
    }

    /// Stores the changes of a refused batch alone; returns the reasons of those that fail.
    private func storeOneByOne(
        _ batch: KVBatch, _ store: (KVBatch) async throws -> Void
    ) async throws -> [KeyName: String] {
        var failures: [KeyName: String] = [:]
        for change in batch.changes {
            try Interruption.check()
            var single = KVBatch()
            single.append(change)
            do {
                try await store(single)
            } catch let error where Self.isAboutTheItems(error) {
                failures[KeyName(change.name)] = "\(error)"
            }
        }
        return failures
    }

    /// Whether other values of the batch may be stored: a server limits their size.
    private static func isAboutTheItems(_ error: any Error) -> Bool {
        [.tooLarge, .valueTooLarge, .invalidKey].contains((error as? KVStoreError)?.code)
    }

    // MARK: Afterwards

    /// Deletes the keys of the destination that the source does not have; `store` is nil if none of the source's could be
    /// read.
    private func deleteExtraneous(than names: Names, in store: OpenedKVStore?) async throws {
        try log.requireCompleteSource()
        guard let store else { return }
        let others = try await store.names().filter { names[KeyName($0)] == nil }
        guard others.count <= arguments.maxDelete else {
            throw CommandFailure(
                "nothing was deleted: \(counted(others.count, "key")) would be deleted, more than --max-delete "
                    + "\(arguments.maxDelete)", .partial)
        }
        let limit = try await store.maximumBatchSize()
        var rest = ArraySlice(others)
        while !rest.isEmpty {
            try Interruption.check()
            let part = rest.prefix(limit)
            rest = rest.dropFirst(part.count)
            if !arguments.dryRun {
                var batch = KVBatch()
                for name in part { batch.append(.remove(name: name)) }
                try await store.commit(batch)
                try store.finish()
            }
            for name in part { try log.record(.delete, name) }
        }
    }

    /// Reads the destination again and compares it with what was copied.
    private func verify(_ names: Names) async throws {
        guard !names.isEmpty else { return }
        let (target, damage) = try KeyValueSource.open(arguments.destination)
        for text in damage { try log.record(.fail, "", reason: "the destination is damaged: \(text)") }
        var rest = names
        try await target.forEach { key, result in
            guard case .success(let bytes) = result, let expected = rest.removeValue(forKey: KeyName(key)) else {
                return
            }
            if SHA256.hash(data: bytes) == expected {
                try log.record(.verify, key)
            } else {
                try log.record(.fail, key, reason: "differs when read back")
            }
        }
        for name in rest.keys.map(\.string).sorted(by: { $0.precedesInBytes($1) }) {
            try log.record(.fail, name, reason: "is missing when read back")
        }
    }
}

/// Some keys and values on their way to a store: they are compared together, and those that differ are stored together.
struct KeyValueBatch {
    /// A batch is one record of the log: of a damaged record, all values are lost.
    static let largestCount = 64
    private static let largestSize = 1 << 20

    private let limit: Int
    private(set) var items: [(key: String, bytes: [UInt8])] = []
    private var names: Set<KeyName> = []
    private var size = 0

    /// - Parameter limit: The most changes that the store takes at once.
    init(limit: Int) {
        // A server takes the batch as one request, whose limit is its own.
        self.limit = limit == .max ? Self.largestCount : min(limit, 1024)
    }

    /// The changes that store the items.
    var changes: KVBatch {
        var batch = KVBatch()
        for (key, bytes) in items { batch.append(.set(name: key, bytes: bytes)) }
        return batch
    }

    /// Whether an item must not be added, because the batch is full or has the key already: the last value of a key
    /// wins.
    func refuses(_ key: String, _ bytes: [UInt8]) -> Bool {
        // With the names, so that a request does not exceed the limits of servers.
        !items.isEmpty
            && (items.count >= limit || size + key.utf8.count + bytes.count > Self.largestSize
                || names.contains(KeyName(key)))
    }

    mutating func append(_ key: String, _ bytes: [UInt8]) {
        items.append((key, bytes))
        names.insert(KeyName(key))
        size += key.utf8.count + bytes.count
    }

    mutating func removeAll() {
        items = []
        names = []
        size = 0
    }
}
