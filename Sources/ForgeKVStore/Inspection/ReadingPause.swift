import ForgeFileSystem

/// Decides at which calls bytes that could not be read as a log or a record are read again: after a change at the next
/// calls, without one ever more rarely.
///
/// Reading them again costs as much as the bytes are long, so a change is not believed more often than that allows: a
/// program that only pretends to change a long log must not keep the reader busy. Without a change they are read again
/// too, because a store into mapped memory need not change the times of its file.
struct ReadingPause: Sendable {
    /// What a change of the bytes changes.
    struct Evidence: Hashable, Sendable {
        var inode: UInt64
        var size: Int64
        var modified: FileTime
        var changed: FileTime
        /// The first bytes of what could not be read.
        var beginning: [UInt8] = []

        init(_ status: FileStatus, beginning: [UInt8] = []) {
            (inode, size) = (status.inode, status.sizeInBytes)
            (modified, changed) = (status.modified, status.changed)
            self.beginning = beginning
        }
    }

    private let evidence: Evidence
    private let failureCount: Int
    private let sizeInBytes: Int64
    private var callCount = 0

    /// The number of calls of the longest pause: 13 seconds if there are five a second.
    static let limit = 64

    /// The number of bytes that delay the next reading after a change by one call.
    static let bytesPerCall: Int64 = 1 << 24

    /// - Parameters:
    ///   - evidence: The state at which the reading failed.
    ///   - sizeInBytes: The number of bytes that are read in vain.
    ///   - earlier: The pause before this failure, if what cannot be read begins at the same place.
    init(_ evidence: Evidence, sizeInBytes: Int64, after earlier: ReadingPause?) {
        self.evidence = evidence
        self.sizeInBytes = sizeInBytes
        failureCount = min((earlier?.failureCount ?? 0) + 1, 32)
    }

    /// Counts a call; returns whether it should read again.
    mutating func isOver(_ now: Evidence) -> Bool {
        callCount += 1
        let unchanged = min(1 << (failureCount - 1), Self.limit)
        guard now != evidence else { return callCount >= unchanged }
        let changed = min(Int(sizeInBytes / Self.bytesPerCall), Self.limit)
        return callCount >= min(unchanged, 1 + changed)
    }
}
