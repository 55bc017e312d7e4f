import CForgeFileSystem
import SystemPackage

/// The content of a file of the operating system, mapped into memory; stores change a copy of the page, not the file
/// (`mmap(2)` with `MAP_PRIVATE`).
///
/// An access beyond the end of a file that was truncated does not fault but finds zeros, as in a ``FileMapping``.
/// `deinit` unmaps it.
package final class PrivateMapping: Sendable {
    // Constant, and the C functions that take it may be called from any thread.
    private nonisolated(unsafe) let record: OpaquePointer
    package let count: Int

    /// The first byte; valid for the lifetime of the mapping.
    package var base: UnsafeMutableRawPointer { forge_mapping_base(record) }

    init(_ record: OpaquePointer, count: Int) {
        self.record = record
        self.count = count
    }

    deinit {
        forge_unmap(record, count)
    }
}
