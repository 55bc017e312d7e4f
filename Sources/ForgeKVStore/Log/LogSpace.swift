import ForgeFileSystem
import SystemPackage

/// Space behind the end of a log, reserved on the device and mapped into memory, so that a record is stored without a
/// system call and a full disk is an error of the reservation.
struct LogSpace: Sendable {
    /// What is mapped: from `start` of the log on.
    private var window: FileMapping?
    private var start: Int64 = 0

    /// Windows before this one, with records that no flush has covered.
    private var earlier: [FileMapping] = []

    /// Whether the file system has said that it cannot do this.
    private(set) var isUnsupported: Bool

    /// Windows begin and end here: a multiple of every page size in use.
    static let granularity: Int64 = 1 << 16
    private static let largestGrowth: Int64 = 4 << 20

    /// More windows than this are not kept waiting for a flush.
    private static let earlierLimit = 32

    init(isUnsupported: Bool) {
        self.isUnsupported = isUnsupported
    }

    /// Makes sure that `count` bytes at `offset` can be stored.
    ///
    /// - Returns: Whether they can; if not, because the file system cannot map files, they have to be written.
    /// - Throws: ``FileSystemError``: there is no space. The log is as it was, but may be longer by zeros.
    @inline(__always)
    mutating func reserve(_ count: Int, at offset: Int64, of file: LogFile) throws(FileSystemError) -> Bool {
        if let window, offset >= start, offset + Int64(count) <= start + Int64(window.count) { return true }
        return try move(count, to: offset, of: file)
    }

    /// Stores bytes at an offset that was reserved.
    @inline(__always)
    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        window?.store(bytes, at: Int(offset - start))
    }

    @inline(never)
    private mutating func move(_ count: Int, to offset: Int64, of file: LogFile) throws(FileSystemError) -> Bool {
        guard !isUnsupported else { return false }
        let newStart = offset / Self.granularity * Self.granularity
        let growth = min(max(offset / 4, 0), Self.largestGrowth)
        let end = (offset + Int64(count) + growth + Self.granularity - 1) / Self.granularity * Self.granularity
        let mapping: FileMapping
        do throws(FileSystemError) {
            let fileSystem = file.fileSystem
            try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                try fileSystem.allocate(file.descriptor, at: newStart, length: end - newStart)
            }
            mapping = try fileSystem.map(file.descriptor, at: newStart, count: Int(end - newStart))
        } catch {
            guard
                error.errno == .operationNotSupportedByDevice || error.errno == .notSupported
                    || error.errno == .invalidArgument
            else {
                throw error
            }
            isUnsupported = true
            return false
        }
        if let window { earlier.append(window) }
        window = mapping
        start = newStart
        if earlier.count > Self.earlierLimit {
            for mapping in earlier { try mapping.writeBack() }
            earlier = []
        }
        return true
    }

    /// What a flush has to write back first; those that are full are given up.
    mutating func takeMappings() -> [FileMapping] {
        defer { earlier = [] }
        return earlier + (window.map { [$0] } ?? [])
    }

    /// Forgets what is mapped, because the file is about to become shorter.
    mutating func release() {
        window = nil
    }
}
