import CForgeFileSystem
import ForgeFileSystem
import SystemPackage

/// Space behind the end of a log, reserved on the device and mapped into memory, so that a record is stored without a
/// system call and a full disk is an error of the reservation.
struct LogSpace: @unchecked Sendable {
    // Invariant of the unchecked conformance: the memory is that of the window, which stays mapped for as long as it
    // stands there, and only the one owner of the space stores into it.

    /// How space is reserved.
    struct Options: Sendable {
        /// Whether files are mapped where the file system can do that.
        var isMapped = true

        /// How far a window reaches beyond the first record in it.
        var growth: Int64 = 1 << 18

        /// What windows begin and end at: a multiple of every page size in use.
        var granularity: Int64 = 1 << 16
    }

    private let growth: Int64
    private let granularity: Int64

    /// What is mapped: from `start` of the log up to `limit`.
    private var window: FileMapping?
    private var start: Int64 = 0
    private var limit: Int64 = 0

    /// The end of what ordinary records may take of the window; what is behind it is kept for removals, so that space
    /// can be freed on a full device.
    private var ordinaryLimit: Int64 = 0

    /// How many bytes are kept for removals, and how many of them for the last record of all, that removes everything.
    private static let removalReserve: Int64 = 4096
    private static let lastReserve: Int64 = 64

    /// The memory of the window, where it is the system's own.
    private var memory: UnsafeMutableRawPointer?

    /// Where a fault in that memory is noted.
    private var fault: UnsafeRawPointer?

    /// The window that comes next, once it was asked for.
    private var coming: LogWindow?

    /// The end of the log from which on the next window should be prepared.
    private(set) var preparesAt = Int64.max

    /// Windows before this one, with records that no flush has covered.
    private var earlier: [FileMapping] = []

    /// Whether the file system has said that it cannot do this.
    private var isUnsupported: Bool

    /// How many of them wait for the next flush before all are written back and unmapped: on Darwin writing back waits
    /// for the device (`msync(2)`), on Linux it does nothing.
    #if canImport(Darwin)
    static let earlierLimit = 32
    #else
    static let earlierLimit = 0
    #endif

    init(_ options: Options) {
        isUnsupported = !options.isMapped
        growth = options.growth
        granularity = options.granularity
    }

    /// Makes sure that `count` bytes at `offset` can be stored, from the reserve if the record frees space.
    ///
    /// - Returns: Whether they can; if not, because the file system cannot map files, they have to be written.
    /// - Throws: ``FileSystemError``: there is no space. The log is as it was, but may be longer by zeros.
    @inline(__always)
    mutating func reserve(
        _ count: Int, at offset: Int64, of file: LogFile, for code: LogRecord.Code = .set
    ) throws(FileSystemError) -> Bool {
        if offset >= start, offset &+ Int64(count) <= ordinaryLimit { return true }
        do throws(FileSystemError) {
            return try move(count, to: offset, of: file)
        } catch  where error.isOutOfSpace && offset >= start && offset + Int64(count) <= removalLimit(code) {
            return true
        }
    }

    private func removalLimit(_ code: LogRecord.Code) -> Int64 {
        switch code {
        case .set, .batch: ordinaryLimit
        case .remove: limit - Self.lastReserve
        case .removeAll, .flushed: limit
        }
    }

    /// Where `count` bytes at an offset that was reserved are to be stored; nil where that takes a call.
    @inline(__always)
    func memory(_ count: Int, at offset: Int64) -> UnsafeMutableRawBufferPointer? {
        memory.map { UnsafeMutableRawBufferPointer(start: $0 + Int(offset - start), count: count) }
    }

    /// Stores bytes at an offset that was reserved.
    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        window?.store(bytes, at: Int(offset - start))
    }

    /// Whether records that no flush has covered could not be written back: a later flush does not cover them either.
    private(set) var hasLostWrites = false

    /// Whether what was stored may not be in the file: another program has made it shorter, or the device is full in
    /// spite of the reservation.
    @inline(__always)
    var hasFaulted: Bool { fault.map { forge_load_fault($0) != 0 } ?? window?.hasFaulted ?? false }

    @inline(never)
    private mutating func move(_ count: Int, to offset: Int64, of file: LogFile) throws(FileSystemError) -> Bool {
        guard !isUnsupported else { return false }
        let end = offset + Int64(count)
        do throws(FileSystemError) {
            let next = coming?.take()
            coming = nil
            if let next, offset >= next.range.lowerBound, end + Self.removalReserve <= next.range.upperBound {
                enter(next.mapping, next.range)
            } else {
                let window = LogWindow(file, after: offset, upTo: end + Self.removalReserve + growth, granularity)
                try enter(window, orAtLeast: end, offset, of: file)
            }
        } catch {
            guard
                error.errno == .operationNotSupportedByDevice || error.errno == .notSupported
                    || error.errno == .invalidArgument
            else {
                throw error
            }
            release()
            isUnsupported = true
            return false
        }
        if earlier.count > Self.earlierLimit {
            do throws(FileSystemError) {
                for mapping in earlier { try mapping.writeBack() }
            } catch {
                hasLostWrites = true
                throw error
            }
            earlier = []
        }
        return true
    }

    /// Makes a window, a smaller one if the device is nearly full.
    private mutating func enter(
        _ window: LogWindow, orAtLeast end: Int64, _ offset: Int64, of file: LogFile
    ) throws(FileSystemError) {
        do throws(FileSystemError) {
            enter(try window.make(), window.range)
        } catch  where error.isOutOfSpace {
            let smallest = LogWindow(file, after: offset, upTo: end + Self.removalReserve, granularity)
            enter(try smallest.make(), smallest.range)
        }
    }

    private mutating func enter(_ mapping: FileMapping, _ range: Range<Int64>) {
        if let window { earlier.append(window) }
        window = mapping
        memory = mapping.systemMemory
        fault = mapping.systemFault
        start = range.lowerBound
        limit = range.upperBound
        ordinaryLimit = limit - Self.removalReserve
        preparesAt = limit - growth / 2
    }

    /// The next window, to be prepared by the caller before it is needed.
    mutating func next(of file: LogFile) -> LogWindow? {
        preparesAt = .max
        guard window != nil else { return nil }
        coming = LogWindow(file, after: limit, upTo: limit + growth, granularity)
        return coming
    }

    /// What a flush has to write back first; those that are full are given up.
    mutating func takeMappings() -> [FileMapping] {
        defer { earlier = [] }
        return earlier + (window.map { [$0] } ?? [])
    }

    /// Forgets what is mapped, because the file is about to become shorter.
    mutating func release() {
        _ = coming?.take()
        coming = nil
        window = nil
        memory = nil
        fault = nil
        (start, limit, ordinaryLimit) = (0, 0, 0)
        preparesAt = .max
    }
}
