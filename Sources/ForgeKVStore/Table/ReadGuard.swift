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
        var copy: EntryContent.Words = (0, 0)
        forge_copy_and_leave(copyText, &words, &copy, reader)
        return InlineTypes.take(&copy, as: type)
    }

    /// Memory on the stack for the copy of a value.
    private typealias StackBuffer = (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)

    /// Leaves with a copy of the value in a ``TypedCell`` of the type `Value`.
    ///
    /// Without `withUnsafeTemporaryAllocation` or `withUnsafeMutablePointer`: for a type that the compiler does not
    /// know they are calls of their own and ask the runtime for the types of their results.
    @inline(__always)
    func leave<Value>(copyingValueOf cell: UnsafeRawPointer, as type: Value.Type) -> Value {
        guard MemoryLayout<Value>.size <= MemoryLayout<StackBuffer>.size,
            MemoryLayout<Value>.alignment <= MemoryLayout<StackBuffer>.alignment
        else { return leave(copyingLargeValueOf: cell, as: type) }
        var buffer: StackBuffer = (0, 0, 0, 0, 0, 0, 0, 0)
        forge_copy_and_leave(copyValue, cell, &buffer, reader)
        return InlineTypes.take(&buffer, as: type)
    }

    @inline(never)
    private func leave<Value>(copyingLargeValueOf cell: UnsafeRawPointer, as type: Value.Type) -> Value {
        let copy = UnsafeMutablePointer<Value>.allocate(capacity: 1)
        defer { copy.deallocate() }
        forge_copy_and_leave(copyValue, cell, copy, reader)
        return copy.move()
    }

    /// Leaves with a cell.
    @inline(never)
    func leave(retaining cell: UnsafeRawPointer) -> ValueCell {
        var owned = cell
        forge_copy_and_leave(retainCell, cell, &owned, reader)
        return Unmanaged<ValueCell>.fromOpaque(owned).takeRetainedValue()
    }
}

private func copyText(_ words: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    copy.initializeMemory(as: String.self, to: words.assumingMemoryBound(to: String.self).pointee)
}

private func copyValue(_ cell: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    Unmanaged<ValueCell>.fromOpaque(cell)._withUnsafeGuaranteedRef { $0.copyValue(to: copy) }
}

private func retainCell(_ cell: UnsafeRawPointer, _ copy: UnsafeMutableRawPointer) {
    let owned = Unmanaged<ValueCell>.fromOpaque(cell).retain()
    copy.storeBytes(of: UnsafeRawPointer(owned.toOpaque()), as: UnsafeRawPointer.self)
}
