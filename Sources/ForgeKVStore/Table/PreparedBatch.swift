import ForgeFileSystem

/// A batch whose names and values were checked, ready to be written and done.
struct PreparedBatch: Sendable {
    private struct Step: Sendable {
        var name: KeyName

        /// Nil for a removal.
        var bytes: [UInt8]?
        var type: WrittenType?
    }

    private var steps: [Step] = []
    private var requirements: [(name: KeyName, revision: UInt64?)] = []

    /// The changes as they are stored in a log.
    private(set) var content: [UInt8] = []

    init(_ batch: KVBatch, valueLimit: Int, store: String?) throws(KVStoreError) {
        for requirement in batch.requirements {
            let name = KeyName(requirement.name)
            try name.validate(.batch, in: store)
            requirements.append((name, requirement.revision))
        }
        steps.reserveCapacity(batch.changes.count)
        var size = 0
        for (change, type) in zip(batch.changes, batch.types) {
            var step = Step(name: KeyName(change.name), type: type)
            try step.name.validate(.batch, in: store)
            if case .set(_, let bytes) = change {
                guard bytes.count <= valueLimit else {
                    throw KVStoreError(.valueTooLarge, .batch, key: change.name, store: store)
                }
                step.bytes = bytes
            }
            size += LogRecord.batchPrefixSize + step.name.count + (step.bytes?.count ?? 0)
            // A batch is one record.
            guard size <= FileKVStore.Options.formatLimit else {
                throw KVStoreError(.valueTooLarge, .batch, key: change.name, store: store)
            }
            steps.append(step)
        }
        content.reserveCapacity(size)
        for step in steps {
            LogRecord.appendToBatch(step.bytes == nil ? .remove : .set, step.name, step.bytes ?? [], &content)
        }
    }

    /// The names that the batch changes or requires something of.
    var names: [KeyName] { steps.map(\.name) + requirements.map(\.name) }

    var isEmpty: Bool { steps.isEmpty }

    var count: UInt64 { UInt64(steps.count) }

    /// Throws unless what the batch requires holds.
    func check(_ table: borrowing TableWriter, store: String?) throws(KVStoreError) {
        for requirement in requirements where table.revision(of: requirement.name) != requirement.revision {
            throw KVStoreError(.conflict, .batch, key: requirement.name.string, store: store)
        }
    }

    /// A value that has to be looked at before it is overwritten.
    struct UnverifiedValue {
        var name: KeyName
        var cell: ValueCell
        fileprivate var type: WrittenType

        /// Whether it can be read as what is written in its place. Runs the code of that type: no lock may be held.
        var isReadable: Bool { type.canRead(cell.bytes, name) }
    }

    /// All values that have to be looked at before the batch may overwrite them, each once, except those of the
    /// revisions in `checked`.
    ///
    /// - Complexity: O(*n*) in the number of changes.
    func unverified(in table: borrowing TableWriter, except checked: Set<UInt64>) -> [UnverifiedValue] {
        var found: [UnverifiedValue] = []
        var revisions = checked
        for step in steps where step.bytes != nil {
            guard let type = step.type, let entry = table.entry(of: step.name), !revisions.contains(entry.revision),
                let cell = OverwritePolicy.unverified(in: entry, type.cellType)
            else { continue }
            revisions.insert(cell.revision)
            found.append(UnverifiedValue(name: step.name, cell: cell, type: type))
        }
        return found
    }

    /// The changes for subscribers, the last of them under the number `last`.
    func reported(last: UInt64) -> [ChangeHub.Change] {
        zip(steps, (last - count)..<last).map { ChangeHub.Change($0.name, $0.bytes, $1 + 1) }
    }

    /// Makes the changes, the last of them under the number `last`.
    func apply(to table: inout TableWriter, last: UInt64) {
        var revision = last - count
        for step in steps {
            revision += 1
            if let bytes = step.bytes {
                table.store(EncodedCell(bytes, revision: revision, type: step.type?.cellType ?? .unknown), step.name)
            } else {
                table.remove(step.name)
            }
        }
    }
}

extension KVEntry {
    init(_ cell: ValueCell) {
        self.init(bytes: cell.bytes, revision: cell.revision)
    }
}
