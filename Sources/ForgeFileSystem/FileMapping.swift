import CForgeFileSystem
package import Foundation
import SystemPackage

// Memory safety: The memory of a mapping is valid until `deinit` unmaps it, and every access is compared with its
// bounds first. A page that the file has lost is replaced by zeros, and the process goes on.

/// A memory-mapped part of a file: a write through it is visible in the file at once, to every process (`mmap(2)`).
///
/// ``POSIXFileSystem/map(_:at:count:)`` maps it shared, for reading and writing. It outlives its descriptor and the
/// file's name; the file is deleted with the last of its names, descriptors and mappings. `deinit` unmaps it.
///
/// A write through the mapping
/// - survives the death of the process once `store` has returned;
/// - survives a power cut only once ``writeBack()`` **and then** ``POSIXFileSystem/synchronize(_:_:)`` of a descriptor
///   of the file have returned. Until then, each block on the device may have its content after any of its stores, one
///   of them partial, independent of other blocks, the file's size and names: stores are ordered neither with each
///   other nor with `write(2)`.
///
/// Two kinds of access fault, because neither a load nor a store can report an error:
/// - a load or store beyond the page that contains the file's last byte. Mapping beyond the end of the file is allowed,
///   so that a file may grow under its mapping; bytes stored between the end of the file and the end of its last page
///   are not part of the file. Truncation by another program has the same effect.
/// - a store into an unallocated part of the file on a full device. Reserve it first
///   (``POSIXFileSystem/allocate(_:at:length:)``), so that a full device is an error of that call.
///
/// A page that faults is replaced by zero-filled memory private to this process, and ``hasFaulted`` is true from then
/// on: stores into it do not reach the file. The handler of the system's signal (`SIGBUS`) handles mapped addresses
/// only, and passes other signals on to the handler that was installed before the first mapping. A handler that the app
/// installs later must pass signals on in the same way.
///
/// The system updates the modification time between a store and the end of the synchronisation that covers it; Linux
/// only at the first store into a page since it was last written back.
///
/// All calls are thread-safe. Bytes that one thread reads while another stores them may mix old and new, so threads
/// that share bytes must synchronise their accesses.
@safe
public final class FileMapping: Sendable {
    /// The number of mapped bytes.
    public let count: Int

    /// Equals ``count`` where the memory is the system's, 0 where every access goes through ``memory``, so that one
    /// comparison decides both whether an access is within bounds and whether it is a plain copy.
    @usableFromInline let directCount: Int

    /// The first byte of the system's memory, which other processes share; where there is none, an address that is
    /// never accessed.
    @usableFromInline nonisolated(unsafe) let base: UnsafeMutableRawPointer

    private let memory: (any MappedMemory)?

    /// The record of the system's memory for the fault handler; nil where every access goes through ``memory``. It is
    /// changed atomically, and lives until the mapping is removed.
    private nonisolated(unsafe) let record: OpaquePointer?

    /// A mapping by the operating system, which `deinit` unmaps.
    init(_ record: OpaquePointer, count: Int) {
        unsafe self.record = record
        unsafe base = forge_mapping_base(record)
        self.count = count
        directCount = count
        memory = nil
    }

    /// A mapping of `count` bytes that loads and stores through `memory`.
    public init(_ memory: some MappedMemory, count: Int) {
        precondition(count > 0, "a mapping holds at least one byte")
        self.memory = memory
        unsafe record = nil
        self.count = count
        directCount = 0
        unsafe base = UnsafeMutableRawPointer(bitPattern: -1).unsafelyUnwrapped
    }

    deinit {
        if let record = unsafe record { unsafe forge_unmap(record, count) }
    }

    /// Whether an access hit a page without a file behind it. Stores into such a page do not reach the file, and loads
    /// from it do not return the file's content.
    public var hasFaulted: Bool {
        if let memory { return memory.hasFaulted }
        return unsafe systemFault.map { unsafe forge_load_fault($0) != 0 } ?? false
    }

    /// Maps the file again at the same address after a fault; other threads may use the mapping meanwhile.
    ///
    /// - Parameters:
    ///   - file: A descriptor of the file.
    ///   - offset: The offset in the file at which the mapping begins.
    /// - Throws: ``FileSystemError``; the mapping counts as faulted then.
    package func restore(from file: Descriptor, at offset: Int64) throws(FileSystemError) {
        guard let record = unsafe record else { return }
        try SystemFileSystem().calling(.map) { unsafe forge_remap(record, file.rawValue, offset, count) }
    }

    /// The system's memory, for callers that cannot afford a call per store; nil where every access goes through an
    /// object.
    ///
    /// Valid for the lifetime of the mapping.
    package var systemMemory: UnsafeMutableRawPointer? { unsafe memory == nil ? base : nil }

    /// The location where the fault handler records a fault, for ``forge_load_fault``; nil where there is no
    /// ``systemMemory``. Valid for the lifetime of the mapping.
    package var systemFault: UnsafeRawPointer? { unsafe record.map { unsafe forge_mapping_fault($0) } }

    /// Copies bytes into the file.
    ///
    /// - Parameters:
    ///   - bytes: The bytes to store.
    ///   - offset: The offset in the mapping; all bytes must lie within its bounds.
    @inlinable public func store(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard offset >= 0, offset <= directCount &- bytes.count, let source = bytes.baseAddress else {
            return unsafe storeIndirectly(bytes, at: offset)
        }
        defer { withExtendedLifetime(self) {} }
        unsafe (base + offset).copyMemory(from: source, byteCount: bytes.count)
    }

    /// Copies bytes into the file; see above.
    package func store(_ bytes: Span<UInt8>, at offset: Int) {
        unsafe bytes.withUnsafeBytes { unsafe store($0, at: offset) }
    }

    /// A copy of a range of the file's bytes, which must lie within the mapping.
    package func copy(of range: Range<Int>) -> [UInt8] { unsafe withUnsafeBytes(range) { unsafe [UInt8]($0) } }

    /// Calls `body` with a range of the file's bytes in place, which change with the file.
    ///
    /// Their address is stable for the lifetime of the mapping.
    ///
    /// - Parameters:
    ///   - range: The range in the mapping; must lie within its bounds.
    ///   - body: A closure that reads the bytes.
    /// - Returns: The result of `body`.
    /// - Throws: The error of `body`.
    @inlinable public func withUnsafeBytes<R: ~Copyable, E: Error>(
        _ range: Range<Int>, _ body: (UnsafeRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        defer { withExtendedLifetime(self) {} }
        guard range.lowerBound >= 0, range.upperBound <= directCount else {
            return try unsafe body(indirectBytes(in: range))
        }
        return try unsafe body(UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count))
    }

    /// Hands all stores into the mapping to the file system, so that the next
    /// ``POSIXFileSystem/synchronize(_:_:)`` of the file covers it (`msync(2)` with `MS_SYNC`).
    ///
    /// On Linux this costs nothing: `fsync(2)` and `fdatasync(2)` flush all modified pages of the file, because the
    /// kernel tracks pages modified by stores (`msync(2)`: "Since Linux 2.6.19, MS_ASYNC is in fact a no-op, since the
    /// kernel properly tracks dirty pages and flushes them to storage as necessary"). POSIX guarantees this only for
    /// `msync`.
    ///
    /// Where ``POSIXFileSystem/reportsErrorsOfMappings`` is false, on Darwin, a page that the device refused is lost
    /// without an error.
    ///
    /// - Throws: ``FileSystemError``, with `ioError` if ``hasFaulted``; as after a failed `synchronize`, it is
    ///   undetermined what has reached the device, and a later success does not change that.
    public func writeBack() throws(FileSystemError) {
        guard !hasFaulted else { throw FileSystemError(.writeBack, .ioError) }
        if let memory { return try memory.writeBack() }
        try SystemFileSystem().calling(.writeBack) { unsafe sysWriteBack(base, count) }
    }

    /// Every access but a copy within the system's memory: mappings of another kind, and ranges out of bounds.
    @usableFromInline @inline(never) func storeIndirectly(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        precondition(
            offset >= 0 && bytes.count <= count && offset <= count - bytes.count,
            "\(bytes.count) bytes at \(offset) are not within a mapping of \(count) bytes")
        guard let memory, unsafe !bytes.isEmpty else { return }
        unsafe memory.store(bytes, at: offset)
    }

    @usableFromInline @inline(never) func indirectBytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
        precondition(
            range.lowerBound >= 0 && range.upperBound <= count,
            "\(range) is not within a mapping of \(count) bytes")
        return unsafe memory?.bytes(in: range)
            ?? UnsafeRawBufferPointer(start: base + range.lowerBound, count: range.count)
    }
}

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

/// The content of a file of the operating system, mapped into memory; stores change a copy of the page, not the file
/// (`mmap(2)` with `MAP_PRIVATE`).
///
/// An access beyond the end of a file that was truncated finds zeros instead of ending the process, as in a
/// ``FileMapping``. `deinit` unmaps it.
@safe
package final class PrivateMapping: Sendable {
    // Constant, and the C functions that take it may be called from any thread.
    private nonisolated(unsafe) let record: OpaquePointer
    package let count: Int

    /// The first byte; valid for the lifetime of the mapping.
    package var base: UnsafeMutableRawPointer { unsafe forge_mapping_base(record) }

    init(_ record: OpaquePointer, count: Int) {
        unsafe self.record = record
        self.count = count
    }

    deinit {
        unsafe forge_unmap(record, count)
    }
}

extension Data {
    /// The bytes of a mapping, which the `Data` retains.
    package init(_ mapping: PrivateMapping) {
        unsafe self.init(
            bytesNoCopy: mapping.base, count: mapping.count,
            deallocator: .custom { _, _ in withExtendedLifetime(mapping) {} })
    }
}
