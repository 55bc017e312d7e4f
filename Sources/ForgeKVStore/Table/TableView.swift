// Memory safety: A cell's address is read inside the critical section that keeps the cell alive, and the section is
// left only after the copy or the retain.

/// The look-ups of readers, which take no lock: a value is read between two equal versions of its entry, inside a
/// read-side critical section.
extension TableView {
    /// Why a look-up ended without a value and without the certainty that there is none.
    enum Interruption: Error {
        /// The writer is changing the entry: wait for it.
        case busy

        /// The value has to be decoded.
        case encoded(ValueCell)
    }

    /// How many times a reader looks at an entry that the writer is changing, which takes a few nanoseconds unless its
    /// thread was suspended meanwhile.
    private static let patience = 64

    /// The value of a key. Inlined into the `get` of each store, which is specialised for the common types.
    @inline(__always)
    func value<Value>(of key: KVKey<Value>) throws(Interruption) -> Value? {
        let section = domain.enter()
        guard let entry = array.find(key.identity) else {
            section.leave()
            return nil
        }
        for _ in 0..<Self.patience {
            let version = entry.version
            let kind = entry.kind
            let words = entry.words
            guard entry.isStill(version) else { continue }
            // No variable has the type `Value?`: every call would ask the runtime for it.
            if kind > EntryContent.cell, kind == InlineTypes.kind(of: Value.self), key.schema == nil {
                if Value.self == String.self { return section.leave(copyingText: words, as: Value.self) }
                section.leave()
                return InlineTypes.value(words, as: Value.self)
            }
            if kind == EntryContent.cell, words.1 != 0, words.1 == CellType.decoded(key).decodedTag {
                return unsafe section.leave(copyingValueOf: EntryContent.cellAddress(words))
            }
            if kind == EntryContent.emptyKind {
                section.leave()
                return nil
            }
            let content = entry.content
            guard entry.isStill(version), let cell = cell(of: content, in: entry, version, leaving: section) else {
                continue
            }
            throw .encoded(cell)
        }
        section.leave()
        throw .busy
    }

    /// The cell of a name.
    func cell(of name: KeyName) throws(Interruption) -> ValueCell? {
        let section = domain.enter()
        guard let entry = array.find(name) else {
            section.leave()
            return nil
        }
        for _ in 0..<Self.patience {
            let version = entry.version
            let content = entry.content
            guard entry.isStill(version) else { continue }
            guard content.kind != EntryContent.emptyKind else {
                section.leave()
                return nil
            }
            guard let cell = cell(of: content, in: entry, version, leaving: section) else { continue }
            return cell
        }
        section.leave()
        throw .busy
    }

    /// The cell of non-empty content, or a new one for a value that has none; leaves the section. Nil,
    /// still inside, if the entry was changed while encoded bytes were copied.
    @inline(never)
    private func cell(
        of content: EntryContent, in entry: KeyEntry, _ version: UInt32, leaving section: ReadGuard
    ) -> ValueCell? {
        switch content.kind {
        case EntryContent.cell:
            return unsafe section.leave(retaining: EntryContent.cellAddress(content.words))
        case EntryContent.encoded:
            // The bytes belong to the arena, which may free them once this thread has left.
            let copy = content.copyOfEncodedValue
            guard entry.isStill(version) else { return nil }
            section.leave()
            return copy
        case InlineTypes.textKind:
            let text = section.leave(copyingText: content.words, as: String.self)
            return InlineTypes.cell(text, revision: content.revision)
        default:
            section.leave()
            return InlineTypes.cell(content)
        }
    }

    /// Records that the value of a name cannot be read; returns whether this is the first report of it.
    func report(_ cell: ValueCell, of name: KeyName) -> Bool {
        let section = domain.enter()
        defer { section.leave() }
        return array.find(name)?.report(cell.revision) ?? true
    }
}
