public import ForgeFileSystem
public import Foundation

/// A key-value store on disk: an append-only log in a directory of its own, and a table of its values in memory.
///
/// Durability: what `set`, `remove`, `removeAll` and `commit` have done survives a kill of the process the moment they
/// return, and a power cut once ``synchronize()`` has returned or the last object for the store is gone. After a power
/// cut before that, the store is as it was after some earlier write.
///
/// A write that throws has changed nothing: the old value stays readable, in memory and on disk. After a failed flush
/// every later write throws `.unavailable(.poisoned)`, because what the device then holds is not known; reads go on.
///
/// Damage costs the damaged records only: of a key whose last record is among them, the value before is served if the
/// log still holds it. What cannot be read is set aside in a file beside the log before anything is written in its
/// place (``damageReports()``), and reported through ``Options/onIssue`` and the log when the store is opened. Of
/// values that were overwritten by another type the newest 64 are kept, up to 64 MiB.
///
/// Reads take no lock and make no system call; a value is decoded once, when it is first read. Opening reads the whole
/// log. Writes come one after another, and each makes its record in mapped memory. Only ``synchronize()`` and
/// ``compact()`` wait for the device.
///
/// On a full device `removeAll` works, and `remove` within 4 KiB of log that are kept for it, in a shared store as the
/// file `#reserve`. A store on a read-only medium, or one that another process has open, can be opened with
/// ``Access/readOnly``.
///
/// If the process has a limit on file sizes (`RLIMIT_FSIZE`) and the log reaches it, the system sends `SIGXFSZ`, which
/// ends the process. If the process ignores the signal, or the calling thread blocks it, as the threads of Dispatch on
/// Linux do, the write throws `.unavailable(.inputOutput)` instead.
///
/// Opening the same directory twice in one process gives two objects over one store. Another process is refused with
/// `.unavailable(.inUse(processID:))`, unless both have chosen ``Options/sharing``.
///
/// A store that is shared is the same in all processes: what one has written, when its call returns, is what every
/// later read in every process returns, and ``KVTransactionalStoring/update(_:default:_:)``,
/// ``KVTransactionalStoring/createIfAbsent(_:value:)-(KVKey<T>,_)``,
/// ``KVTransactionalStoring/compareAndSet(_:revision:value:)`` and ``KVTransactionalStoring/commit(_:)`` are atomic
/// among all of them. A ``ReactiveKVStore`` over it also reports changes by other processes. No lock is held between
/// calls.
/// - A write waits for writes of other processes, ``Options/lockTimeout`` at most. Waiting is a poll without a queue:
///   with more than about a hundred processes that write all the time, some may time out.
/// - A read compares one word of memory. If it has changed, the new records are read from the log first; a read waits
///   as a write does only if another process has rewritten the log.
/// - If new records cannot be read, `get` and `contains` return what is known, which is reported through
///   ``Options/onIssue``; every other call throws.
/// - A write that finds the log worth rewriting rewrites it before it returns.
/// - A flush covers earlier writes of other processes. After a failed flush, the process refuses further writes; on
///   Linux, the next flush of every other process fails too.
/// - Processes are identified by their process numbers, so all must share one PID namespace (not two containers).
public final class FileKVStore: KVTransactionalStoring {
    private let use: EngineUse
    let engine: KVEngine

    /// The engine's, at hand: good for as long as the engine is, and made for reading without a lock.
    private nonisolated(unsafe) let table: TableView
    private let options: Options

    /// Nil for an exclusive store, so that reads only pay for one comparison.
    private let sharing: EngineSharing?

    /// Opens the store in the directory at `url`, which is created durably, parents included, with mode 0700.
    ///
    /// - Parameters:
    ///   - url: A file URL; the store is the directory and everything in it.
    ///   - fileSystem: Where the directory is.
    ///   - options: Limits and reporting. Limits of a store that is open already stay as they are.
    /// - Throws: ``KVStoreError``: `.unavailable` for a store that is in use, or that cannot be read or locked;
    ///   `.noStore` if there is none and ``Options/access`` does not allow to create one; `.unknownFormat` for a store
    ///   of a later version. What is on disk stays as it is.
    /// - Complexity: O(*n*) in the length of the log.
    public convenience init(
        at url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem(), options: Options = Options()
    ) throws {
        let path: POSIXPath
        do throws(FileSystemError) {
            path = try POSIXPath(url)
        } catch {
            throw KVStoreError(error, .open, store: url.absoluteString)
        }
        try self.init(at: path, fileSystem: fileSystem, options: options)
    }

    /// Opens the store in the directory at `path`; see above.
    public init(
        at path: POSIXPath, fileSystem: any POSIXFileSystem = SystemFileSystem(), options: Options = Options()
    ) throws {
        use = try EngineRegistry.open(path, options: options, on: fileSystem)
        engine = use.engine
        table = engine.table.view
        sharing = engine.place.sharing
        self.options = options
        engine.openingIssues.forEach(options.report)
    }

    /// Makes everything that was written durable: it survives a power cut when the call returns.
    ///
    /// Calls that come while another flushes share its flush.
    ///
    /// - Throws: ``KVStoreError``: `.durabilityUnknown` if the device failed; the store then refuses all writes.
    ///   `.noStore` if the directory was removed, or another log has taken the place of this one. `.damaged` if another
    ///   program has truncated the log, which has lost writes; the store then refuses all writes.
    public func synchronize() throws {
        try engine.synchronize()
    }

    /// Rewrites the log without what is out of date, durably; the store does so itself from time to time.
    ///
    /// - Throws: ``KVStoreError``; `.noStore` if another log has taken the place of this one, which stays untouched. The old
    ///   log stays in use, unless the store refuses all writes after that.
    /// - Complexity: O(*n*) in the length of the live values and of what is written meanwhile.
    public func compact() throws {
        try engine.compact()
    }

    /// What was ever set aside because it could not be read, and is still there.
    public func damageReports() throws -> [KVDamageReport] {
        do throws(FileSystemError) {
            return try engine.place.quarantine.reports()
        } catch {
            throw KVStoreError(error, .open, store: engine.place.name)
        }
    }
}

// MARK: KVTransactionalStoring

extension FileKVStore {
    public func get<T>(_ key: KVKey<T>) -> T? {
        if let sharing, sharing.mayHaveRemoteChanges { engine.loadRemoteChangesOrReport(.get, about: key.identity) }
        do throws(TableView.Interruption) {
            return try table.value(of: key)
        } catch {
            return get(key, after: error)
        }
    }

    @inline(never)
    private func get<T>(_ key: KVKey<T>, after interruption: TableView.Interruption) -> T? {
        do throws(UndecodableValue) {
            return try engine.value(of: key, after: interruption)
        } catch {
            if error.isFirstReport { options.report(.undecodable(undecodable(key.name, .get, error))) }
            return nil
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        try key.identity.validate(.read, in: engine.place.name)
        try engine.loadRemoteChanges(.read, about: key.identity)
        do throws(TableView.Interruption) {
            return try table.value(of: key)
        } catch {
            return try read(key, after: error)
        }
    }

    @inline(never)
    private func read<T>(_ key: KVKey<T>, after interruption: TableView.Interruption) throws -> T? {
        do throws(UndecodableValue) {
            return try engine.value(of: key, after: interruption)
        } catch {
            throw undecodable(key.name, .read, error)
        }
    }

    private func undecodable(
        _ name: String, _ operation: KVStoreError.Operation, _ error: UndecodableValue
    ) -> KVStoreError {
        KVStoreError(decoding: error.cause, operation, key: name, store: engine.place.name)
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        let issue = try engine.set(value, for: key)
        if engine.changes.isOn { engine.changes.notify([key.identity]) }
        if let issue { options.report(issue) }
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try key.identity.validate(.remove, in: engine.place.name)
        try engine.remove(key.identity)
        if engine.changes.isOn { engine.changes.notify([key.identity]) }
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        if let sharing, sharing.mayHaveRemoteChanges {
            engine.loadRemoteChangesOrReport(.contains, about: key.identity)
        }
        return engine.cell(of: key.identity) != nil
    }

    public func removeAll() throws {
        try engine.removeAll()
        if engine.changes.isOn { engine.changes.notify(nil) }
    }

    public func keys() throws -> [String] {
        try engine.loadRemoteChanges(.keys)
        return try engine.names()
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        let name = KeyName(name)
        try name.validate(.read, in: engine.place.name)
        try engine.loadRemoteChanges(.read, about: name)
        return engine.cell(of: name)?.bytes
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        let name = KeyName(name)
        try name.validate(.set, in: engine.place.name)
        guard bytes.count <= options.valueLimit else {
            throw KVStoreError(.valueTooLarge, .set, key: name.string, store: engine.place.name)
        }
        try engine.set(bytes, named: name)
        if engine.changes.isOn { engine.changes.notify([name]) }
    }

    public func removeValue(named name: String) throws {
        let name = KeyName(name)
        try name.validate(.remove, in: engine.place.name)
        try engine.remove(name)
        if engine.changes.isOn { engine.changes.notify([name]) }
    }

    public func entry(named name: String) throws -> KVEntry? {
        let name = KeyName(name)
        try name.validate(.read, in: engine.place.name)
        try engine.loadRemoteChanges(.read, about: name)
        return engine.cell(of: name).map { KVEntry($0) }
    }

    public func snapshot() throws -> KVSnapshot {
        try engine.loadRemoteChanges(.snapshot)
        return try engine.snapshot()
    }

    public func commit(_ batch: KVBatch) throws {
        let issue = try engine.commit(batch)
        if engine.changes.isOn { engine.changes.notify(batch.changes.map { KeyName($0.name) }) }
        if let issue { options.report(issue) }
    }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        engine.observe(handler)
    }
}

extension FileKVStore: KVObservableStoring {
    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        engine.observeChanges(handler)
    }
}

extension FileKVStore: KVIssueReporting {
    /// Reports an issue to ``Options/onIssue`` and the log.
    public func report(_ issue: KVStoreIssue) { options.report(issue) }
}
