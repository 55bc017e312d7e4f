package import ForgeFileSystem

/// What file systems that stand between others and their users do to mappings.
extension FileMapping {
    /// Another mapping, of which some uses go another way; those left nil go straight to it.
    ///
    /// What bytes are given out for a range has to stay at its address for as long as this mapping lives.
    package convenience init(
        watching base: FileMapping,
        load: (@Sendable (FileMapping, Range<Int>) -> UnsafeRawBufferPointer)? = nil,
        store: (@Sendable (FileMapping, UnsafeRawBufferPointer, Int) -> Void)? = nil,
        writeBack: (@Sendable (FileMapping) throws(FileSystemError) -> Void)? = nil
    ) {
        self.init(WatchedMemory(base, load: load, store: store, writeBack: writeBack), count: base.count)
    }

    /// The bytes of a range, to be used while the mapping lives.
    package func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
        withUnsafeBytes(range) { $0 }
    }
}

private final class WatchedMemory: MappedMemory {
    private let base: FileMapping
    private let load: (@Sendable (FileMapping, Range<Int>) -> UnsafeRawBufferPointer)?
    private let storing: (@Sendable (FileMapping, UnsafeRawBufferPointer, Int) -> Void)?
    private let writingBack: (@Sendable (FileMapping) throws(FileSystemError) -> Void)?

    init(
        _ base: FileMapping, load: (@Sendable (FileMapping, Range<Int>) -> UnsafeRawBufferPointer)?,
        store: (@Sendable (FileMapping, UnsafeRawBufferPointer, Int) -> Void)?,
        writeBack: (@Sendable (FileMapping) throws(FileSystemError) -> Void)?
    ) {
        self.base = base
        self.load = load
        storing = store
        writingBack = writeBack
    }

    func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
        load?(base, range) ?? base.bytes(in: range)
    }

    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard let storing else { return base.store(bytes, at: offset) }
        storing(base, bytes, offset)
    }

    func writeBack() throws(FileSystemError) {
        guard let writingBack else { return try base.writeBack() }
        try writingBack(base)
    }
}
