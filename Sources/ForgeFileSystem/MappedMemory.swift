/// The memory of a ``FileMapping`` that is not the operating system's own.
///
/// A ``POSIXFileSystem`` that can map, or that watches another's mappings, has a type that conforms. The mapping checks
/// all bounds before it calls, and releases the memory when it is released itself.
public protocol MappedMemory: AnyObject, Sendable {
    /// The bytes of a range, at an address that stays the same for as long as the memory lives.
    func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer

    /// Copies bytes, at least one, into the memory; the file holds them when the call returns.
    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int)

    /// Whether an access found no file behind a page; see ``FileMapping/hasFaulted``.
    var hasFaulted: Bool { get }

    /// Hands everything that was stored to the file system; see ``FileMapping/writeBack()``.
    func writeBack() throws(FileSystemError)
}
