/// A batch whose names and values were checked, ready to be written and done.
struct PreparedBatch: Sendable {
    private enum Step: Sendable {
        case set(KeyName, [UInt8], WrittenType?)
        case remove(KeyName)
    }

    private var steps: [Step] = []
    private var requirements: [(name: KeyName, revision: UInt64?)] = []

    /// The changes as they stand in a log.
    private(set) var content: [UInt8] = []

    init(_ batch: KVBatch, valueLimit: Int, store: String?) throws(KVStoreError) {
        for requirement in batch.requirements {
            let name = KeyName(requirement.name)
            try name.check(.batch, in: store)
            requirements.append((name, requirement.revision))
        }
        for (change, type) in zip(batch.changes, batch.types) {
            let name = KeyName(change.name)
            try name.check(.batch, in: store)
            switch change {
            case .set(_, let bytes):
                // The record as a whole has to fit as well.
                guard bytes.count <= valueLimit - content.count else {
                    throw KVStoreError(.valueTooLarge, .batch, key: change.name, store: store)
                }
                steps.append(.set(name, bytes, type))
                LogRecord.appendToBatch(.set, name, bytes, &content)
            case .remove:
                steps.append(.remove(name))
                LogRecord.appendToBatch(.remove, name, [], &content)
            }
        }
    }

    /// The names that the batch changes or requires something of.
    var names: [KeyName] {
        steps.map { step in
            switch step {
            case .set(let name, _, _), .remove(let name): name
            }
        } + requirements.map(\.name)
    }

    var isEmpty: Bool { steps.isEmpty }

    var count: UInt64 { UInt64(steps.count) }

    /// Throws unless what the batch requires holds.
    func check(_ table: borrowing TableWriter, store: String?) throws(KVStoreError) {
        for requirement in requirements where table.revision(of: requirement.name) != requirement.revision {
            throw KVStoreError(.conflict, .batch, key: requirement.name.string, store: store)
        }
    }

    /// A value that has to be looked at before it is overwritten.
    struct Suspect {
        var name: KeyName
        var cell: ValueCell
        fileprivate var type: WrittenType

        /// Whether it can be read as what is written in its place. Runs the code of that type: no lock may be held.
        var isReadable: Bool { type.canRead(cell, name) }
    }

    /// The first value that has to be looked at before the batch may overwrite it.
    func suspect(in table: borrowing TableWriter, where isNew: (ValueCell) -> Bool) -> Suspect? {
        for case .set(let name, _, let type?) in steps {
            if let cell = type.suspect(in: table.entry(of: name), name), isNew(cell) {
                return Suspect(name: name, cell: cell, type: type)
            }
        }
        return nil
    }

    /// Makes the changes, the last of them under the number `last`.
    func apply(to table: inout TableWriter, last: UInt64) {
        var revision = last - count
        for step in steps {
            revision += 1
            switch step {
            case .set(let name, let bytes, let type):
                table.store(EncodedCell(bytes, revision: revision, type: type?.cellType ?? .unknown), name)
            case .remove(let name): table.remove(name)
            }
        }
    }
}

extension KVEntry {
    init(_ cell: ValueCell) {
        self.init(bytes: cell.bytes, revision: cell.revision)
    }

    static func all(_ contents: [(name: KeyName, cell: ValueCell)]) -> KVSnapshot {
        KVSnapshot(contents.map { ($0.name.string, KVEntry($0.cell)) })
    }
}
