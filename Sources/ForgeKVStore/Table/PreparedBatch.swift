import ForgeFileSystem

/// A batch whose names and values were checked, ready to be written and done.
struct PreparedBatch: Sendable {
    /// One change.
    struct Step: Sendable {
        let name: KeyName

        /// Nil for a removal.
        let bytes: [UInt8]?
        let type: WrittenType?

        /// - Throws: `.invalidKey`, `.valueTooLarge`.
        fileprivate init(
            _ name: KeyName, _ bytes: [UInt8]?, _ type: WrittenType?, _ operation: KVStoreError.Operation,
            valueLimit: Int, store: String?
        ) throws(KVStoreError) {
            try name.validate(operation, in: store)
            guard bytes.map({ $0.count <= valueLimit }) ?? true else {
                throw KVStoreError(.valueTooLarge, operation, key: name.string, store: store)
            }
            (self.name, self.bytes, self.type) = (name, bytes, type)
        }

        /// The size in the content of a batch.
        fileprivate var size: Int { LogRecord.batchPrefixSize + name.count + (bytes?.count ?? 0) }
    }

    private let steps: [Step]
    private let requirements: [(name: KeyName, revision: UInt64?)]

    /// Several changes as they are stored in a log; empty for one change, which is stored as such.
    let content: [UInt8]

    /// A change of one value whose type is not known; nil removes it.
    init(
        _ name: KeyName, _ bytes: [UInt8]?, _ operation: KVStoreError.Operation, valueLimit: Int, store: String?
    ) throws(KVStoreError) {
        steps = [try Step(name, bytes, nil, operation, valueLimit: valueLimit, store: store)]
        requirements = []
        content = []
    }

    init(_ batch: KVBatch, valueLimit: Int, store: String?) throws(KVStoreError) {
        var requirements: [(name: KeyName, revision: UInt64?)] = []
        for requirement in batch.requirements {
            let name = KeyName(requirement.name)
            try name.validate(.batch, in: store)
            requirements.append((name, requirement.revision))
        }
        var steps: [Step] = []
        steps.reserveCapacity(batch.changes.count)
        var size = 0
        for (change, type) in zip(batch.changes, batch.types) {
            let bytes: [UInt8]? = if case .set(_, let bytes) = change { bytes } else { nil }
            let step = try Step(
                KeyName(change.name), bytes, type, .batch, valueLimit: valueLimit, store: store)
            size += step.size
            // A batch is one record.
            guard size <= FileKVStore.Options.formatLimit else {
                throw KVStoreError(.valueTooLarge, .batch, key: change.name, store: store)
            }
            steps.append(step)
        }
        var content: [UInt8] = []
        if steps.count > 1 {
            content.reserveCapacity(size)
            for step in steps {
                LogRecord.appendToBatch(step.bytes == nil ? .remove : .set, step.name, step.bytes ?? [], &content)
            }
        }
        (self.steps, self.requirements, self.content) = (steps, requirements, content)
    }

    /// The change, if there is only one.
    var onlyChange: Step? { steps.count == 1 ? steps[0] : nil }

    var count: UInt64 { UInt64(steps.count) }

    /// Whether there is a change that is not the removal of an absent value.
    func changesSomething(in table: borrowing TableWriter) -> Bool {
        for step in steps where step.bytes != nil || table.revision(of: step.name) != nil { return true }
        return false
    }

    /// Throws unless what the batch requires holds.
    func check(_ table: borrowing TableWriter, store: String?) throws(KVStoreError) {
        for requirement in requirements where table.revision(of: requirement.name) != requirement.revision {
            throw KVStoreError(.conflict, .batch, key: requirement.name.string, store: store)
        }
    }

    /// A value that has to be looked at before it is overwritten.
    struct UnverifiedValue: Sendable {
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
