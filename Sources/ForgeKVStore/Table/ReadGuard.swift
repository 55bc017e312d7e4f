import CForgeKVStore

/// A read-side critical section that the thread is inside, to be left exactly once.
///
/// Numbers and truth values that were read from an entry are plain words and may be used after ``leave()``. What holds
/// a reference comes out by one of the other methods, all of which copy in `forge_copy_and_leave`; why that is safe is
/// written there.
struct ReadGuard {
    fileprivate let reader: UnsafeMutablePointer<forge_reader>

    @inline(__always)
    init(reader: UnsafeMutablePointer<forge_reader>) {
        self.reader = reader
    }

    @inline(__always)
    func leave() { forge_leave(reader) }

    /// Leaves with a copy of the text that words are, as a value of the type `Value`, which is `String`.
    @inline(__always)
    func leave<Value>(copyingText words: EntryContent.Words, as type: Value.Type) -> Value {
        var words = words
        return copyAndLeave(copyText, &words, reader)
    }

    /// Leaves with a copy of the value in a ``TypedCell`` of the type `Value`; never nil.
    ///
    /// Returns an optional and is never inlined: otherwise the compiler makes the copy in a temporary and moves it, and
    /// the move stalls on the stores that have just been made.
    @inline(never)
    func leave<Value>(copyingValueOf cell: UnsafeRawPointer) -> Value? {
        let copy: Value = copyAndLeave(copyValue, cell, reader)
        return .some(copy)
    }

    /// Leaves with a cell.
    @inline(never)
    func leave(retaining cell: UnsafeRawPointer) -> ValueCell {
        copyAndLeave(retainCell, cell, reader)
    }
}

/// `forge_copy_and_leave`: calls `copier`, which initializes the result with a copy of `original`, then leaves the
/// section.
///
/// Not imported from the header, because C has no generic functions. A result of a generic type is always returned
/// indirectly, so that the copy is made in its final place.
@_silgen_name("forge_copy_and_leave")
private func copyAndLeave<Value>(
    _ copier: @convention(c) (UnsafeRawPointer, UnsafeMutableRawPointer) -> Void, _ original: UnsafeRawPointer,
    _ reader: UnsafeMutablePointer<forge_reader>
) -> Value

private func copyText(_ words: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    copy.initializeMemory(as: String.self, to: words.load(as: String.self))
}

private func copyValue(_ cell: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    Unmanaged<ValueCell>.fromOpaque(cell)._withUnsafeGuaranteedRef { $0.copyValue(to: copy) }
}

private func retainCell(_ cell: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    copy.initializeMemory(as: ValueCell.self, to: Unmanaged<ValueCell>.fromOpaque(cell).takeUnretainedValue())
}
