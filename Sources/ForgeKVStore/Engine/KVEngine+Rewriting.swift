import Dispatch
import ForgeFileSystem
import Synchronization

/// Rewriting the log without what is out of date, while everybody goes on reading and writing.
extension KVEngine {
    private static let queue = DispatchQueue(label: "ForgeKVStore.rewriting", qos: .utility, attributes: .concurrent)

    /// A last stretch of the log that is copied while writers wait.
    private static let shortTail: Int64 = 1 << 16

    /// Rewrites the log; everything that was written is durable then.
    func compact() throws(KVStoreError) {
        if let sharing = place.sharing { return try compact(sharing) }
        try rewriting.withLock { (_) throws(KVStoreError) in
            try writer.withLock { (writer) throws(KVStoreError) in try check(writer, .compact, nil) }
            try rewrite()
        }
    }

    /// Whether so much of the log is out of date that rewriting it is worth the while.
    @inline(__always)
    func isRewritingDue(_ writer: borrowing Writer) -> Bool {
        let live = writer.table.liveBytes
        let dead = writer.log.end - Int64(LogHeader.size) - live
        return dead > live + Int64(options.compactionFloorInBytes) && dead > writer.rewritingThreshold
    }

    /// Sees to it that the log is rewritten, by somebody else if the options allow; returns an issue for the caller to
    /// report.
    @inline(never)
    func rewriteWhenDue() -> KVStoreIssue? {
        guard !isRewritingDue.exchange(true, ordering: .acquiringAndReleasing) else { return nil }
        if let sharing = place.sharing {
            defer { isRewritingDue.store(false, ordering: .releasing) }
            return rewriteIfDue(sharing)
        }
        guard options.compactsInBackground else { return rewriteIfStillDue() }
        Self.queue.async(group: background) { [weak self] in
            guard let self, let issue = rewriteIfStillDue() else { return }
            options.report(issue)
        }
        return nil
    }

    private func rewriteIfStillDue() -> KVStoreIssue? {
        defer { isRewritingDue.store(false, ordering: .releasing) }
        return rewriting.withLock { _ in
            guard writer.withLock({ $0.obstacle == nil && !$0.log.isPoisoned && isRewritingDue($0) }) else {
                return nil
            }
            do throws(KVStoreError) {
                try rewrite()
                return nil
            } catch {
                // The write that set this off is done and stays acknowledged.
                writer.withLock { writer in
                    writer.rewritingThreshold = 2 * (writer.log.end - Int64(LogHeader.size) - writer.table.liveBytes)
                }
                return .compactionFailed(error)
            }
        }
    }

    /// For who holds `rewriting`.
    private func rewrite() throws(KVStoreError) {
        do throws(FileSystemError) {
            let (old, end, sequence) = writer.withLock { ($0.log.file, $0.log.end, $0.log.sequence) }
            let header = LogHeader(
                fileID: LogFileID(random: place.fileSystem.randomBits), generation: old.header.generation &+ 1)
            var replacement = try LogReplacement(header, at: place.directory, on: place.fileSystem)
            do throws(FileSystemError) {
                try replacement.append(kept: contents(upTo: sequence), upTo: sequence)
                let copied = try follow(old, from: end, into: &replacement)
                try takePlace(of: old, copied: copied, &replacement)
            } catch {
                replacement.discard()
                throw error
            }
        } catch {
            throw KVStoreError(error, .compact, store: place.name)
        }
        // Until the name has reached the device, a power cut could bring the old log back.
        try flush()
    }

    /// What the table holds that was stored by the write of this number or before, in the order of the writes.
    private func contents(upTo sequence: UInt64) -> [(name: KeyName, cell: ValueCell)] {
        var collected: [(name: KeyName, cell: ValueCell)] = []
        var position = TableWriter.Position()
        while writer.withLock({ $0.table.collect(from: &position, upTo: sequence, into: &collected) }) {}
        return collected.sorted { $0.cell.revision < $1.cell.revision }
    }

    /// Copies what is appended meanwhile, until little is left; returns up to where.
    private func follow(
        _ old: LogFile, from start: Int64, into replacement: inout LogReplacement
    ) throws(FileSystemError) -> Int64 {
        var copied = start
        try replacement.synchronize()
        while true {
            let end = writer.withLock { $0.log.end }
            guard end - copied > Self.shortTail else { return copied }
            try replacement.append(copied..<end, of: old)
            try replacement.synchronize()
            copied = end
        }
    }

    /// Copies the rest and puts the new log in the place of the old one.
    private func takePlace(
        of old: LogFile, copied: Int64, _ replacement: inout LogReplacement
    ) throws(FileSystemError) {
        try flushing.withLock { (_) throws(FileSystemError) in
            try writer.withLock { (writer) throws(FileSystemError) in
                try replacement.append(copied..<writer.log.end, of: old)
                if copied == writer.log.end { try replacement.appendFlushed(writer.log.sequence + 1) }
                // What was acknowledged as durable has to be so in the new log as well.
                if writer.log.flushedSequence > replacement.synchronizedSequence { try replacement.synchronize() }
                writer.log = try replacement.moveIntoPlace(isMapped: options.isMapped)
                writer.rewritingThreshold = 0
            }
        }
    }
}
