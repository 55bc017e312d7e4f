import CForgeFileSystem
import SystemPackage

/// A part of a file as memory: what is stored here is the file's content at once, for every process (`mmap(2)`).
///
/// It is mapped shared, for reading and writing, by ``POSIXFileSystem/map(_:at:count:)``, and outlives the descriptor
/// that it was made from, and the file's name; the file goes with the last of its names, descriptors and mappings. It
/// is unmapped when the object goes.
///
/// What was stored
/// - is kept when the process dies, from the moment on that `store` returns;
/// - is kept when the power fails only once ``writeBack()`` **and then**
///   ``POSIXFileSystem/synchronize(_:_:)`` of a descriptor of the file have returned. Until then each block may be on
///   the device as it was after any of its stores, one of them in part, whatever happened to other blocks, to the
///   file's size and to names: nothing orders stores, neither with each other nor with `write(2)`.
///
/// Two things make an access fault, since neither a load nor a store can report an error:
/// - loading or storing behind the page that holds the file's last byte. Mapping beyond the end of the file is allowed,
///   so that a file may grow under its mapping; what is stored between the end and that page's is no part of the file.
///   A file that another program makes shorter has the same effect.
/// - storing into a part of the file that has no space on a device that is full. Reserve it first
///   (``POSIXFileSystem/allocate(_:at:length:)``), so that a full device is an error of that call.
///
/// A page that faults is replaced by memory of this process alone, zeros at first, and ``hasFaulted`` is true from then
/// on: what was stored there is not in the file. The system's signal (`SIGBUS`) is handled for mapped addresses only,
/// and passed on to the handler that was installed before the first mapping otherwise. A handler that the app installs
/// later must pass signals on in the same way.
///
/// The system notes the time of modification at some moment between a store and the end of the synchronisation that
/// covers it: Linux at the first store into a page since that was last written out, and at no other.
///
/// All threads may use it at once. Bytes that are read while another thread stores them are any mixture of old and new,
/// so threads that share bytes must order their accesses.
public final class FileMapping: Sendable {
    /// How many bytes are mapped.
    public let count: Int

    /// As ``count`` where the memory is the system's, 0 where every access goes through ``memory``: one comparison
    /// decides both whether an access is within bounds and whether it is a plain copy.
    @usableFromInline let directCount: Int

    /// The first byte of the system's memory, an address that is never used where there is none. It leads to memory
    /// that is shared with other processes.
    @usableFromInline nonisolated(unsafe) let base: UnsafeMutableRawPointer

    private let memory: (any MappedMemory)?

    /// The record of the system's memory for the handler of faults; nil where every access goes through ``memory``. It
    /// is changed atomically, and lives until the mapping is removed.
    private nonisolated(unsafe) let record: OpaquePointer?

    /// A mapping by the operating system, which `deinit` unmaps.
    init(_ record: OpaquePointer, count: Int) {
        self.record = record
        base = forge_mapping_base(record)
        self.count = count
        directCount = count
        memory = nil
    }

    /// A mapping of `count` bytes that reads and stores through something else.
    public init(_ memory: some MappedMemory, count: Int) {
        precondition(count > 0, "a mapping holds at least one byte")
        self.memory = memory
        record = nil
        self.count = count
        directCount = 0
        base = UnsafeMutableRawPointer(bitPattern: -1).unsafelyUnwrapped
    }

    deinit {
        if let record { forge_unmap(record, count) }
    }

    /// Whether an access found no file behind a page. What was stored in such a page is not in the file, and what is
    /// loaded from it is not the file's.
    public var hasFaulted: Bool {
        if let memory { return memory.hasFaulted }
        return systemFault.map { forge_load_fault($0) != 0 } ?? false
    }

    /// Maps the file again at the same address, after a fault; other threads may go on using the mapping meanwhile.
    ///
    /// - Parameters:
    ///   - file: A descriptor of the file.
    ///   - offset: Where in the file the mapping begins.
    /// - Throws: ``FileSystemError``; the mapping counts as faulted then.
    package func restore(from file: Descriptor, at offset: Int64) throws(FileSystemError) {
        guard let record else { return }
        try SystemFileSystem().calling(.map) { forge_remap(record, file.rawValue, offset, count) }
    }

    /// The system's memory, for callers that cannot afford a call for each store; nil where every access goes through
    /// an object.
    ///
    /// Good for as long as the mapping is.
    package var systemMemory: UnsafeMutableRawPointer? { memory == nil ? base : nil }

    /// Where the handler of faults notes one, for ``forge_load_fault``; nil where there is no ``systemMemory``. Good
    /// for as long as the mapping is.
    package var systemFault: UnsafeRawPointer? { record.map { forge_mapping_fault($0) } }

    /// Copies bytes into the file.
    ///
    /// - Parameters:
    ///   - bytes: What to store.
    ///   - offset: Where in the mapping; all bytes must lie within its bounds.
    @inlinable public func store(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard offset >= 0, offset <= directCount &- bytes.count, let source = bytes.baseAddress else {
            return storeIndirectly(bytes, at: offset)
        }
        defer { withExtendedLifetime(self) {} }
        (base + offset).copyMemory(from: source, byteCount: bytes.count)
    }

    /// Calls `body` with bytes of the file where they lie, which change as the file does.
    ///
    /// They stay at the same address for as long as the mapping lives.
    ///
    /// - Parameters:
    ///   - range: Which bytes of the mapping; must lie within its bounds.
    ///   - body: What to do with them.
    /// - Returns: What `body` returned.
    /// - Throws: What `body` threw.
    @inlinable public func withUnsafeBytes<R: ~Copyable, E: Error>(
        _ range: Range<Int>, _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        defer { withExtendedLifetime(self) {} }
        guard range.lowerBound >= 0, range.upperBound <= directCount else { return try body(indirectBytes(in: range)) }
        return try body(UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
    }

    /// Hands everything that was stored in the mapping to the file system, so that the next
    /// ``POSIXFileSystem/synchronize(_:_:)`` of the file covers it (`msync(2)` with `MS_SYNC`).
    ///
    /// On Linux this costs nothing: `fsync(2)` and `fdatasync(2)` flush all pages of the file that were modified, by
    /// whatever means, since the kernel keeps track of the pages that were stored into (`msync(2)`: "Since Linux
    /// 2.6.19, MS_ASYNC is in fact a no-op, since the kernel properly tracks dirty pages and flushes them to storage as
    /// necessary"). POSIX promises that for no other call than `msync`.
    ///
    /// - Throws: ``FileSystemError``, with `ioError` if ``hasFaulted``; as after a failed `synchronize`, it is
    ///   undecided what has reached the device, and a later success says nothing about it.
    public func writeBack() throws(FileSystemError) {
        guard !hasFaulted else { throw FileSystemError(.writeBack, .ioError) }
        if let memory { return try memory.writeBack() }
        try SystemFileSystem().calling(.writeBack) { sysWriteBack(base, count) }
    }

    /// All that is no copy into the system's memory: a mapping of another kind, and what is out of bounds.
    @usableFromInline @inline(never) func storeIndirectly(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        precondition(
            offset >= 0 && bytes.count <= count && offset <= count - bytes.count,
            "\(bytes.count) bytes at \(offset) are not within a mapping of \(count) bytes")
        guard let memory, !bytes.isEmpty else { return }
        memory.store(bytes, at: offset)
    }

    @usableFromInline @inline(never) func indirectBytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
        precondition(
            range.lowerBound >= 0 && range.upperBound <= count,
            "\(range) is not within a mapping of \(count) bytes")
        return memory?.bytes(in: range) ?? UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count)
    }
}
