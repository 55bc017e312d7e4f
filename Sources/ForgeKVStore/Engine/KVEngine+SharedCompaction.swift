import ForgeFileSystem
import Synchronization

/// Compacting and closing a store that other processes have open too.
extension KVEngine {
    /// Compacts the log, durably, under the lock of the store.
    func compact(_ sharing: EngineSharing) throws(KVStoreError) {
        try withLock(sharing, .compact) { () throws(KVStoreError) in
            try writer.withLock { (writer) throws(KVStoreError) in try check(writer, .compact) }
            try replaceLog(sharing)
        }
    }

    /// The same if enough of the log is outdated.
    func compactNow(_ sharing: EngineSharing) {
        do throws(KVStoreError) {
            try withLock(sharing, .compact) { () throws(KVStoreError) in
                let isWanted = writer.withLock { writer in
                    // Another process may have done it.
                    writer.compactionThreshold = 0
                    return writer.isWritable && !isClosed
                        && writer.isCompactionDue(floor: options.compactionFloorInBytes)
                }
                if isWanted { try replaceLog(sharing) }
            }
        } catch {
            // The write that set this off is done and stays acknowledged.
            writer.withLock { $0.postponeCompaction() }
            options.report(.compactionFailed(error))
        }
    }

    private func replaceLog(_ sharing: EngineSharing) throws(KVStoreError) {
        do throws(FileSystemError) {
            _ = flushing.begin(.max, isDone: { false })
            defer { flushing.end(flushed: 0) }
            try writer.withLock { (writer) throws(FileSystemError) in try replaceLog(of: &writer, sharing) }
        } catch {
            throw KVStoreError(error, .compact, store: handle.name)
        }
        // Until the name has reached the device, a power cut could bring the old log back.
        try flush()
        handle.removalReserve.fill()
    }

    private func replaceLog(of writer: inout Writer, _ sharing: EngineSharing) throws(FileSystemError) {
        let header = LogHeader(
            fileID: LogFileID(random: handle.fileSystem.randomBits),
            generation: writer.log.file.header.generation &+ 1)
        var replacement = try LogReplacement(header, at: handle.directory, on: handle.fileSystem)
        do throws(FileSystemError) {
            let sequence = writer.log.sequence
            var values = writer.table.collected
            try replacement.append(retained: &values, upTo: sequence)
            if sequence > 0 { try replacement.appendFlushed(sequence + 1) }
            try replacement.synchronize()
            writer.log = try replacement.moveIntoPlace(options.space)
        } catch {
            replacement.discard()
            throw error
        }
        writer.compactionThreshold = 0
        sharing.noteFile(of: writer.log)
        sharing.note(writer.log)
    }

    /// Flushes the log and, if no other process has the store open, appends a flush marker.
    func close(_ sharing: EngineSharing) throws(KVStoreError) {
        guard writer.withLock({ $0.log.sequence > $0.log.flushedSequence || !$0.log.endsFlushed }) else { return }
        // Before the lock is asked for, which may be in vain.
        try flush()
        try withLock(sharing, .synchronize) { () throws(KVStoreError) in
            do throws(FileSystemError) {
                guard try sharing.page.isAlone() else { return }
                guard writer.withLock({ $0.isWritable }) else { return }
            } catch {
                throw KVStoreError(error, .synchronize, store: handle.name)
            }
            try flush()
            try appendFlushMarker()
            writer.withLock { sharing.note($0.log) }
        }
    }
}
