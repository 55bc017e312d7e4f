import CForgeFileSystem
import ForgeFileSystem
import Synchronization
import SystemPackage

// Memory safety: `memory` lies within `window`, which stays mapped while it is referenced here; records are stored
// only in a range that `reserve` or `holds` has found to be within it.

/// Space after the end of a log, reserved on the device and mapped into memory, so that records are stored without a
/// system call and a full disk is an error of the reservation.
@safe
struct LogSpace: @unchecked Sendable {
    // Invariant of the unchecked conformance: the memory is that of the window, which stays mapped while referenced
    // here, and only the single owner of the space stores into it.

    /// The parameters of reservations.
    struct Options: Sendable {
        /// Whether files are mapped if the file system supports it.
        var isMapped = true

        /// The size of a window beyond its first record.
        var growth: Int64 = 1 << 18

        /// The alignment of windows: a multiple of every page size in use.
        var granularity: Int64 = 1 << 16
    }

    private let growth: Int64
    private let granularity: Int64

    /// The mapped part of the log, from `start` to `limit`.
    private var window: FileMapping?
    private var start: Int64 = 0
    private var limit: Int64 = 0

    /// The end of the part of the window for ordinary records; the rest is kept for removals, so that space can be
    /// freed on a full device.
    private var ordinaryLimit: Int64 = 0

    /// The number of bytes kept for removals; the last of them are kept for a record that removes everything.
    private static let removalReserve: Int64 = 4096
    private static let lastReserve: Int64 = 64

    /// The memory of the window, if it is the system's own.
    private var memory: UnsafeMutableRawPointer?

    /// The location where a fault in that memory is recorded.
    private var fault: UnsafeRawPointer?

    /// The next window, once it was requested.
    private var coming: LogWindow?

    /// The end of the log at which the next window should be prepared.
    private(set) var preparesAt = Int64.max

    /// Earlier windows with unflushed records.
    private var earlier: [FileMapping] = []

    /// Whether the file system does not support mapping.
    private var isUnsupported: Bool

    init(_ options: Options) {
        isUnsupported = !options.isMapped
        growth = options.growth
        granularity = options.granularity
    }

    /// Whether `count` bytes at `offset` can be stored as they are.
    @inline(__always)
    func holds(_ count: Int, at offset: Int64) -> Bool { offset >= start && offset &+ Int64(count) <= ordinaryLimit }

    /// Makes sure that `count` bytes at `offset` can be stored, using the reserve if the record frees space.
    ///
    /// - Returns: Whether they can be stored; if not, because the file system does not support mapping, they must be
    ///   written.
    /// - Throws: ``FileSystemError`` if there is no space. The log is unchanged, but may have more zeros at its end.
    mutating func reserve(
        _ count: Int, at offset: Int64, of file: LogFile, for code: LogRecord.Code = .set
    ) throws(FileSystemError) -> Bool {
        if holds(count, at: offset) { return true }
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

    /// The memory for `count` bytes at a reserved offset; nil where storing takes a call.
    @inline(__always)
    func memory(_ count: Int, at offset: Int64) -> UnsafeMutableRawBufferPointer? {
        unsafe memory.map { unsafe UnsafeMutableRawBufferPointer(start: $0 + Int(offset - start), count: count) }
    }

    /// Stores bytes at a reserved offset.
    func store(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        unsafe window?.store(bytes, at: Int(offset - start))
    }

    /// Whether unflushed records could not be written back: a later flush does not cover them either.
    private(set) var hasLostWrites = false

    /// Whether stores may be missing from the file: another program has truncated it, or the device is full despite the
    /// reservation.
    @inline(__always)
    var hasFaulted: Bool { unsafe fault.map { unsafe forge_load_fault($0) != 0 } ?? window?.hasFaulted ?? false }

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
        if !earlier.isEmpty {
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

    /// Maps a window, a smaller one if the device is nearly full.
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
        unsafe memory = mapping.systemMemory
        unsafe fault = mapping.systemFault
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

    /// The mappings that a flush must write back first; full windows are released.
    mutating func takeMappings() -> [FileMapping] {
        defer { earlier = [] }
        return earlier + (window.map { [$0] } ?? [])
    }

    /// Releases all windows before the file is truncated.
    mutating func release() {
        _ = coming?.take()
        coming = nil
        window = nil
        unsafe memory = nil
        unsafe fault = nil
        (start, limit, ordinaryLimit) = (0, 0, 0)
        preparesAt = .max
    }
}

/// A part of a log's file that is reserved, filled with zeros and mapped before records are stored in it.
///
/// Writing zeros brings the pages into memory in a tenth of the time of a page fault for each.
final class LogWindow: Sendable {
    /// Begins at a multiple of every page size in use, which may be before the zeros.
    let range: Range<Int64>

    private let file: LogFile
    private let zeros: Range<Int64>
    private let state = Mutex(State.wanted)

    private enum State: Sendable {
        case wanted
        case made(FileMapping)
        case given
    }

    /// The space of a log after `offset`, up to `end` or slightly more.
    init(_ file: LogFile, after offset: Int64, upTo end: Int64, _ granularity: Int64) {
        self.file = file
        let limit = (end + granularity - 1) / granularity * granularity
        // One step back, so that a record that begins in the previous window fits into this one.
        range = max(0, offset / granularity * granularity - granularity)..<limit
        zeros = offset..<limit
    }

    /// Prepares the window unless that was done or it is no longer needed. After a failure, the next use tries again.
    func prepare() {
        state.withLock { state in
            guard case .wanted = state else { return }
            do throws(FileSystemError) {
                state = .made(try make())
            } catch {
                state = .given
            }
        }
    }

    /// The window, if it is prepared. Waits for a thread that is preparing it; no thread starts preparing it
    /// afterwards.
    func take() -> (mapping: FileMapping, range: Range<Int64>)? {
        state.withLock { state in
            defer { state = .given }
            guard case .made(let mapping) = state else { return nil }
            return (mapping, range)
        }
    }

    /// Reserves the space and maps it. Nothing may have been stored after the start of the zeros.
    func make() throws(FileSystemError) -> FileMapping {
        let fileSystem = file.fileSystem
        try fileSystem.retryingInterrupts { () throws(FileSystemError) in
            try fileSystem.allocate(
                file.descriptor, at: zeros.lowerBound, length: zeros.upperBound - zeros.lowerBound)
        }
        try writeZeros()
        return try fileSystem.map(
            file.descriptor, at: range.lowerBound, count: Int(range.upperBound - range.lowerBound))
    }

    private func writeZeros() throws(FileSystemError) {
        let size = Int(min(zeros.upperBound - zeros.lowerBound, 1 << 16))
        try unsafe withUnsafeTemporaryAllocation(byteCount: size, alignment: 16) { (buffer) throws(FileSystemError) in
            unsafe buffer.initializeMemory(as: UInt8.self, repeating: 0)
            var offset = zeros.lowerBound
            while offset < zeros.upperBound {
                let count = Int(min(Int64(buffer.count), zeros.upperBound - offset))
                try unsafe file.fileSystem.writeFully(
                    file.descriptor, from: UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: offset)
                offset += Int64(count)
            }
        }
    }
}
