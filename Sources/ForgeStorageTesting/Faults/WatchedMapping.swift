package import ForgeFileSystem

/// Support for wrapping mappings.
extension FileMapping {
    /// Wraps a mapping and redirects some of its operations; nil forwards to the base.
    ///
    /// The bytes returned for a range must keep their address for the lifetime of the mapping.
    package convenience init(
        watching base: FileMapping,
        load: (@Sendable (FileMapping, Range<Int>) -> UnsafeRawBufferPointer)? = nil,
        store: (@Sendable (FileMapping, UnsafeRawBufferPointer, Int) -> Void)? = nil,
        writeBack: (@Sendable (FileMapping) throws(FileSystemError) -> Void)? = nil
    ) {
        self.init(WatchedMemory(base, load: load, store: store, writeBack: writeBack), count: base.count)
    }

    /// The bytes of a range, valid while the mapping lives.
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

    var hasFaulted: Bool { base.hasFaulted }

    func writeBack() throws(FileSystemError) {
        guard let writingBack else { return try base.writeBack() }
        try writingBack(base)
    }
}
