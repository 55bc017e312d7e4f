import ForgeFileSystem
import Logging
import Synchronization

/// Writing the index by which the store is opened next.
extension KVEngine {
    /// The log's end at which an index is worth its writing while the store is in use.
    static func indexesAt(_ indexedEnd: Int64, _ options: FileKVStore.Options) -> Int64 {
        guard options.usesIndex, options.compactsInBackground else { return .max }
        return indexedEnd + max(128 * Int64(options.indexedFromBytes), indexedEnd / 4)
    }

    /// Sees to it that there is an index of what was written, by another thread.
    func indexWhenDue() {
        let end = writer.withLock { writer -> Int64? in
            guard writer.log.end >= writer.indexesAt else { return nil }
            writer.indexesAt = .max
            return writer.log.end
        }
        guard let end else { return }
        inBackground { engine in
            engine.rewriting.withLock { _ in
                do throws(KVStoreError) {
                    try engine.flush()
                    engine.writeIndex(upTo: end)
                } catch {
                    engine.options.logger.warning("no index of \(engine.place.path): \(error)")
                }
            }
        }
    }

    /// Writes an index of the log before a byte up to which everything is on the device, if that is worth the while; for
    /// who holds `rewriting`.
    func writeIndex(upTo end: Int64) {
        let (log, size, isWorthwhile) = writer.withLock { writer in
            (
                writer.log.file, writer.table.liveBytes,
                options.usesIndex && end <= writer.log.end
                    && end - max(writer.indexedEnd, Int64(LogHeader.size)) >= Int64(options.indexedFromBytes)
            )
        }
        guard isWorthwhile else { return }
        var index = LogIndexWriter(log, at: place.directory, maximumPayloadSize: options.readablePayloadSize)
        var isWritten = false
        do throws(FileSystemError) {
            isWritten = try index.write(upTo: end, liveBytes: size)
        } catch {
            // The log holds everything.
            options.logger.warning("no index of \(place.path): \(error)")
        }
        writer.withLock { writer in
            guard writer.log.file === log else { return }
            if isWritten { writer.indexedEnd = end }
            writer.indexesAt = Self.indexesAt(isWritten ? end : writer.log.end, options)
        }
    }
}
