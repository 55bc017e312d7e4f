import ForgeFileSystem

/// Changes by other processes that were applied to the table, to be published and released when no lock is held.
struct RemoteChanges: Sendable {
    private(set) var names: Set<KeyName> = []
    private(set) var mayConcernAll = false
    var issues: [KVStoreIssue] = []

    /// With a value may go code of its type.
    private var garbage: [Garbage] = []

    private final class Garbage: Sendable {
        private let content: DeferredReclamation.Garbage

        init(_ content: consuming DeferredReclamation.Garbage) {
            self.content = content
        }
    }

    var isEmpty: Bool { names.isEmpty && !mayConcernAll }

    /// Does to a table what a record of another process says.
    mutating func apply(
        _ change: LogRecord.Change, _ sequence: UInt64, to table: inout TableWriter, isWatched: Bool
    ) {
        switch change {
        case .set(let name, let bytes):
            table.store(EncodedCell(bytes, revision: sequence), name)
            if isWatched { names.insert(name) }
        case .remove(let name):
            table.remove(name)
            if isWatched { names.insert(name) }
        case .removeAll:
            table.removeAll()
            mayConcernAll = true
        case .batch(let changes):
            let first = sequence - UInt64(changes.count - 1)
            for (index, change) in changes.enumerated() {
                apply(change, first + UInt64(index), to: &table, isWatched: isWatched)
            }
        case .flushed: break
        }
    }

    /// Makes a table equal to what was read from a log that was opened anew; what is the same stays untouched, so that
    /// no reader sees anything missing meanwhile.
    mutating func apply(_ contents: [(name: KeyName, cell: ValueCell)], to table: inout TableWriter) {
        var kept: Set<KeyName> = []
        kept.reserveCapacity(contents.count)
        for (name, cell) in contents {
            kept.insert(name)
            guard table.revision(of: name) != cell.revision else { continue }
            table.store(cell, name)
            mayConcernAll = true
        }
        for name in table.names.lazy.map(KeyName.init) where !kept.contains(name) {
            table.remove(name)
            mayConcernAll = true
        }
    }

    /// Takes over what was taken out of a table.
    mutating func collect(from table: inout TableWriter) {
        if let collected = table.collectGarbage() { garbage.append(Garbage(collected)) }
    }
}
