/// The memory of a ``FileMapping`` that is not the operating system's.
///
/// A ``POSIXFileSystem`` that implements mapping, or wraps another's mappings, provides a conforming type. The mapping
/// checks all bounds before it calls, and releases the memory in its `deinit`.
public protocol MappedMemory: AnyObject, Sendable {
    /// The bytes of a range, at an address that is stable for the lifetime of the memory.
    func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer

    /// Copies bytes, at least one, into the memory; the file contains them when the call returns.
    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int)

    /// Whether an access hit a page without a file behind it; see ``FileMapping/hasFaulted``.
    var hasFaulted: Bool { get }

    /// Hands all stores to the file system; see ``FileMapping/writeBack()``.
    func writeBack() throws(FileSystemError)
}
