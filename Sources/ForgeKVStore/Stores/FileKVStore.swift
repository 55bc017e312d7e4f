public import ForgeFileSystem
public import Foundation

/// A key-value store on disk: an append-only log in its own directory, and a table of its values in memory.
///
/// Durability: a completed `set`, `remove`, `removeAll` or `commit` survives a kill of the process as soon as it
/// returns, and a power cut once ``synchronize()`` has returned or the last object for the store is released. After a
/// power cut before that, the store has its state after some earlier write.
///
/// A write that throws has changed nothing: the old value stays readable, in memory and on disk. After a failed flush
/// every later write throws `.unavailable(.poisoned)`, because the content of the device is unknown; reads continue.
///
/// Damage loses only the damaged records: if the last record of a key is damaged, its previous value is served if the
/// log still contains it. Unreadable data is set aside in a file beside the log before anything is written in its place
/// (``damageReports()``), and reported through ``Options/onIssue`` and the log when the store is opened. Of values that
/// were overwritten by another type the newest 64 are kept, up to 64 MiB.
///
/// Reads are lock-free and make no system call; a value is decoded once, when it is first read. Opening reads the whole
/// log. Writes are serialised, and each stores its record into mapped memory. Only ``synchronize()``, ``compact()``,
/// ``close()`` and writes with a durability wait for the device, and rarely another write: one that sets an unreadable
/// value aside, or meets the end of a background compaction, a full device or a failed record.
///
/// On a full device `removeAll` works, and `remove` within 4 KiB of log space that an open store reserves for it, and
/// within the block of the file `#reserve`, which an opening or a compaction with space for it creates anew. What was
/// removed leaves space for writes after ``compact()``, or when the store is closed and opened again. A store on a
/// read-only medium, or one that another process has open, can be opened with ``Access/readOnly``.
///
/// If the process has a limit on file sizes (`RLIMIT_FSIZE`) and the log reaches it, the system sends `SIGXFSZ`, which
/// ends the process. If the process ignores the signal, or the calling thread blocks it, as the threads of Dispatch on
/// Linux do, the write throws `.unavailable(.inputOutput)` instead.
///
/// Opening a directory twice in one process creates two objects over one store. Another process fails with
/// `.unavailable(.inUse(processID:))`, unless both use ``Options/sharing``.
///
/// A shared store is the same in all processes: once a write has returned, every later read in every process returns
/// the written value, and ``KVTransactionalStoring/update(_:default:durability:_:)``,
/// ``KVTransactionalStoring/createIfAbsent(_:value:)-(KVKey<T>,_)``,
/// ``KVTransactionalStoring/compareAndSet(_:revision:value:)`` and ``KVTransactionalStoring/commit(_:)`` are atomic
/// across processes. A ``ReactiveKVStore`` over it also reports changes by other processes. No lock is held between
/// calls.
/// - A write waits for writes of other processes, at most ``Options/lockTimeout``. Waiting is polling without a queue:
///   with more than about a hundred processes that write continuously, some may time out.
/// - A read compares one word of memory. If it has changed, the new records are first read from the log, without a
///   lock, so that a process which is stopped in the middle of a write or a compaction delays no read of the others.
/// - If new records cannot be read because the log is damaged, a read repairs it under the lock, like a write. `get`
///   and `contains` wait for that lock a millisecond; then, and after any failure, they return the known values, report
///   that once through ``Options/onIssue``, and a background thread tries again. Every other call throws.
/// - A process that compacts the log holds the lock only for the end of it. The others then read only what is new to
///   them.
/// - A flush covers earlier writes of other processes. After a failed flush, the process refuses further writes; on
///   Linux, the next flush of every other process fails too.
/// - Processes are identified by their process numbers, so all must share one PID namespace (not two containers).
public final class FileKVStore: KVTransactionalStoring {
    private let use: EngineUse
    let engine: KVEngine

    /// The engine's table, cached here: valid for the lifetime of the engine, and readable without a lock.
    private let table: TableView
    private let options: Options

    /// Nil for an exclusive store, whose reads then cost one comparison more.
    private let sharing: EngineSharing?

    /// Opens the store in the directory at `url`, which is created durably, parents included, with mode 0700.
    ///
    /// - Parameters:
    ///   - url: A file URL; the store is the directory and everything in it.
    ///   - fileSystem: The file system of the directory.
    ///   - options: Limits and reporting. The limits of a store that is already open are unchanged.
    /// - Throws: ``KVStoreError``: `.unavailable` for a store that is in use, or that cannot be read or locked;
    ///   `.noStore` if there is none and ``Options/access`` does not permit creating one; `.unknownFormat` for a store
    ///   of a later version. The files are unchanged.
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

    /// Opens the store in a directory of its own in a standard directory of the system.
    ///
    /// ```swift
    /// let settings = try FileKVStore(directory: .applicationSupport, namespace: "org.example.notes")
    /// ```
    ///
    /// - Parameters:
    ///   - directory: The kind of data.
    ///   - namespace: The name of the store's directory in it: one component, such as the app's identifier. A
    ///     `DiskFileStore` needs another one.
    ///   - options: Limits and reporting.
    /// - Throws: `InvalidKey` for a namespace that is not one valid component; the errors of
    ///   ``init(at:fileSystem:options:)-(URL,_,_)``.
    public convenience init(
        directory: StandardDirectory, namespace: String, options: Options = Options()
    ) throws {
        let name = try RelativeKey(component: namespace)
        let path: POSIXPath
        do throws(FileSystemError) {
            path = try directory.path().appending(name.path)
        } catch {
            throw KVStoreError(error, .open, store: namespace)
        }
        try self.init(at: path, options: options)
    }

    /// Opens the store in the directory at `path`; see above.
    public convenience init(
        at path: POSIXPath, fileSystem: any POSIXFileSystem = SystemFileSystem(), options: Options = Options()
    ) throws {
        self.init(try EngineRegistry.open(path, options: options, on: fileSystem), options)
    }

    /// Opens the store in an open directory for writing, even if the directory's path leads elsewhere now.
    ///
    /// - Parameters:
    ///   - directory: The directory, which the store takes over; it is closed even if this throws.
    ///   - path: The path for errors and reports.
    ///   - fileSystem: The file system of the directory.
    ///   - options: As for a store at a path.
    /// - Throws: ``KVStoreError`` as for a store at a path.
    package convenience init(
        takingOver directory: Descriptor, at path: POSIXPath, fileSystem: any POSIXFileSystem, options: Options
    ) throws(KVStoreError) {
        self.init(try EngineRegistry.open(directory, path, options: options, on: fileSystem), options)
    }

    private init(_ use: EngineUse, _ options: Options) {
        self.use = use
        engine = use.engine
        table = engine.table.view
        sharing = engine.sharing
        self.options = options
        engine.takeOpeningIssues().forEach(options.report)
    }

    /// Makes all earlier writes durable: they survive a power cut when the call returns.
    ///
    /// Concurrent calls share one flush.
    ///
    /// - Throws: ``KVStoreError``: `.durabilityUnknown` if the device failed; the store then refuses all writes.
    ///   `.noStore` if the directory was removed, or another log has replaced this one. `.damaged` if another program
    ///   has truncated the log, which has lost writes; the store then refuses all writes.
    public func synchronize() throws {
        try engine.synchronize()
    }

    /// Compacts the log: removes outdated records, durably; the store also does so by itself from time to time.
    ///
    /// - Throws: ``KVStoreError``; `.noStore` if another log has replaced this one, which is left unchanged. The old
    ///   log stays in use, unless the store refuses all writes after that.
    /// - Complexity: O(*n*) in the size of the live values and of concurrent writes.
    public func compact() throws {
        try engine.compact()
    }

    /// Reports of all unreadable data that was set aside and still exists.
    public func damageReports() throws -> [KVDamageReport] {
        do throws(FileSystemError) {
            return try engine.handle.quarantine.reports()
        } catch {
            throw KVStoreError(error, .open, store: engine.name)
        }
    }
}

// MARK: KVTransactionalStoring

extension FileKVStore {
    @_specialize(where T == Int)
    @_specialize(where T == String)
    @_specialize(where T == Bool)
    @_specialize(where T == Double)
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
            if table.report(error.revision, of: key.identity) {
                options.report(
                    .undecodable(KVStoreError(decoding: error.cause, .get, key: key.name, store: engine.name)))
            }
            return nil
        }
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        let issues = try engine.set(value, for: key)
        if !issues.isEmpty { issues.forEach(options.report) }
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        if let sharing, sharing.mayHaveRemoteChanges {
            engine.loadRemoteChangesOrReport(.contains, about: key.identity)
        }
        return engine.cell(of: key.identity) != nil
    }

    /// The first names after one, in the order of their bytes: a listing in slices needs no memory for all names.
    ///
    /// - Complexity: O(*n*) in the number of all names.
    package func names(after previous: String?, limit: Int) throws(KVStoreError) -> [String] {
        try engine.names(after: previous, limit: limit)
    }

    public func commit(_ batch: KVBatch) throws { try engine.commit(batch).forEach(options.report) }

    /// Reports an issue to ``Options/onIssue`` and the log.
    public func report(_ issue: KVStoreIssue) { options.report(issue) }
}

extension FileKVStore: WritableEngineStore {}

/// A store whose values are in an engine of this process, and the calls that all of these make alike.
protocol EngineStore: KVRawStoring {
    var engine: KVEngine { get }
}

extension EngineStore {
    public func read<T>(_ key: KVKey<T>) throws -> T? { try engine.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { engine.cell(of: key.identity) != nil }

    public func keys() throws -> [String] { try engine.names() }

    public func rawValue(named name: String) throws -> [UInt8]? { try engine.cell(named: name)?.bytes }

    public func subscribe(to scope: KVScope) -> KVChanges? { engine.subscribe(to: scope) }
}

/// A store of this process in which the app writes.
protocol WritableEngineStore: EngineStore, KVTransactionalStoring {}

extension WritableEngineStore {
    public func remove<T>(_ key: KVKey<T>) throws { try engine.remove(key.identity) }

    public func removeAll() throws { try engine.removeAll() }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        try engine.set(bytes, named: KeyName(name))
    }

    public func removeValue(named name: String) throws { try engine.remove(KeyName(name)) }

    public func entry(named name: String) throws -> KVEntry? { try engine.cell(named: name).map { KVEntry($0) } }

    public func snapshot() throws -> KVSnapshot { try engine.snapshot() }
}

// MARK: Closing

extension FileKVStore {
    /// Closes the store for all its objects in this process: when this returns, all writes are durable and another
    /// process can open the store.
    ///
    /// Afterwards reads return the last content, no change is reported, and other calls throw
    /// `.unavailable(.closed)`. A concurrent write is either durable as well or throws. Closing again, or concurrently,
    /// gives the same result once the store is closed.
    ///
    /// Without this call the store is closed when its last object is released, and a failure is only logged.
    ///
    /// - Throws: ``KVStoreError``: `.durabilityUnknown` if the device failed, `.noStore` if the directory was removed
    ///   or another log has taken the place of this one, `.damaged` if another program has truncated the log, which has
    ///   lost writes; the store is closed nevertheless. `.unavailable(.inUse(processID:))` within ``Options/onIssue`` for
    ///   an issue of a background thread or of the closing itself, which this would wait for; the call has no effect then.
    ///   For an issue of another call, such as `get`, this closes the store.
    public func close() throws { try engine.close() }

    /// Closes the store like ``close()``, without blocking a thread of the pool while the device flushes.
    ///
    /// - Throws: ``KVStoreError``, as ``close()``; the store is closed nevertheless.
    public func shutDown() async throws {
        try await engine.lane.run { try self.close() }
    }

    /// Opens a store, calls `body` with it, and closes it, even if `body` throws. A tool that several processes may run
    /// at once passes `Options(sharing: .shared)`; otherwise the second one fails, as the store is in use.
    ///
    /// ```swift
    /// try FileKVStore.withStore(at: url) { store in
    ///     try store.set(KVKey<Int>("launches"), value: 1)
    /// }  // Durable, and free for other processes.
    /// ```
    ///
    /// - Returns: The result of `body`.
    /// - Throws: The error of opening, of `body`, or else of ``close()``.
    public static func withStore<Result>(
        at url: URL, options: Options = Options(), _ body: (FileKVStore) throws -> Result
    ) throws -> Result {
        let store = try FileKVStore(at: url, options: options)
        let result = Swift.Result { try body(store) }
        return try store.closing(after: result)
    }

    /// The same for an asynchronous `body`, which runs on the caller's actor, and with ``shutDown()``.
    public static func withStore<Result>(
        at url: URL, options: Options = Options(), isolation: isolated (any Actor)? = #isolation,
        _ body: (FileKVStore) async throws -> Result
    ) async throws -> Result {
        let store = try FileKVStore(at: url, options: options)
        let result: Swift.Result<Result, any Error>
        do {
            result = .success(try await body(store))
        } catch {
            result = .failure(error)
        }
        do {
            try await store.shutDown()
        } catch {
            // The earlier error is the one to report.
            _ = try result.get()
            throw error
        }
        return try result.get()
    }

    private func closing<Value>(after result: Result<Value, any Error>) throws -> Value {
        do {
            try close()
        } catch {
            // The earlier error is the one to report.
            _ = try result.get()
            throw error
        }
        return try result.get()
    }
}
