import ForgeFileSystem
import Synchronization

/// The commit step of every change: acquire the locks, check that the log is writable, call the body, which appends a
/// record and changes the table, release the locks, and run what is due.
///
/// It has two implementations, chosen when the store is opened: exclusive, under `writer`, and shared
/// (`commitShared(_:_:)`), which also acquires the lock of the store and loads the records of other processes first.
extension KVEngine {
    /// Calls `body` under the locks. If it returns a retry reason, it has changed nothing.
    @inline(__always)
    func commitStep(
        _ operation: KVStoreError.Operation, _ body: (inout Writer) throws(KVStoreError) -> RetryReason?
    ) throws(KVStoreError) -> RetryReason? {
        try checkFork(operation)
        var tasks: PostWriteTasks = []
        let retryReason =
            if let sharing = handle.sharing {
                try commitShared(sharing, operation) { (writer) throws(KVStoreError) in
                    try change(&writer, operation, &tasks, body)
                }
            } else {
                try writer.withLock { (writer) throws(KVStoreError) in
                    try change(&writer, operation, &tasks, body)
                }
            }
        if !tasks.isEmpty { run(tasks) }
        return retryReason
    }

    @inline(__always)
    private func change(
        _ writer: inout Writer, _ operation: KVStoreError.Operation, _ tasks: inout PostWriteTasks,
        _ body: (inout Writer) throws(KVStoreError) -> RetryReason?
    ) throws(KVStoreError) -> RetryReason? {
        try check(writer, operation)
        let retryReason = try body(&writer)
        tasks = writer.tasks(compactionFloor: options.compactionFloorInBytes)
        return retryReason
    }

    @inline(never)
    private func run(_ tasks: PostWriteTasks) {
        if tasks.contains(.garbage) {
            // With a value may go code of its type: outside the lock.
            _ = writer.withLock { $0.table.collectGarbage() }
        }
        if tasks.contains(.space) { prepareSpace() }
        if tasks.contains(.compaction) { compactWhenDue() }
    }

    @inline(__always)
    func append(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ name: KeyName, _ value: UnsafeRawBufferPointer,
        _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(FileSystemError) {
            return try name.withBytes { (bytes) throws(FileSystemError) in
                try writer.log.append(code, bytes, value)
            }
        } catch {
            throw KVStoreError(error, operation, store: handle.name)
        }
    }

    /// Appends a record that is about no key.
    func append(
        _ code: LogRecord.Code, _ operation: KVStoreError.Operation, _ content: [UInt8], count: UInt64 = 1,
        _ writer: inout Writer
    ) throws(KVStoreError) -> UInt64 {
        do throws(FileSystemError) {
            return try content.withBytes { (content) throws(FileSystemError) in
                try writer.log.append(code, .empty, content, count: count)
            }
        } catch {
            throw KVStoreError(error, operation, store: handle.name)
        }
    }

    /// Throws in a child that was forked while the store was open.
    @inline(__always)
    func checkFork(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard fork.isForkedChild else { return }
        throw KVStoreError(.unavailable(.forked), operation, store: handle.name)
    }

    /// Throws if the store was closed, and in a child that was forked while it was open.
    @inline(__always)
    func checkUse(_ operation: KVStoreError.Operation) throws(KVStoreError) {
        try checkFork(operation)
        guard isClosed else { return }
        throw KVStoreError(.unavailable(.closed), operation, store: handle.name)
    }

    /// Throws unless the log can be written to.
    @inline(__always)
    func check(_ writer: borrowing Writer, _ operation: KVStoreError.Operation) throws(KVStoreError) {
        guard writer.log.isPoisoned || writer.obstacle != nil || isClosed else { return }
        try checkUse(operation)
        guard let obstacle = writer.obstacle else {
            throw KVStoreError(.unavailable(.poisoned), operation, store: handle.name)
        }
        guard obstacle.code != .readOnly else { throw KVStoreError(.readOnly, operation, store: handle.name) }
        throw KVStoreError(.unavailable(.inputOutput), operation, store: handle.name, underlying: obstacle)
    }
}
