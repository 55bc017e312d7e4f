import ForgeFileSystem

/// Schedules retries of reading a damaged log or record: soon after the file changes, otherwise with exponential
/// back-off.
///
/// A retry reads all the damaged bytes again. After a change it is delayed in proportion to their number, so that a
/// program that keeps touching a large file cannot keep the reader busy. Unchanged files are read again as well,
/// because a write through a memory mapping need not change the times of its file.
struct ReadingPause: Sendable {
    /// A fingerprint of the bytes that could not be read: a different one shows that they have changed.
    struct Evidence: Hashable, Sendable {
        var inode: UInt64
        var size: Int64
        var modified: FileTime
        var changed: FileTime
        /// The first damaged bytes.
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

    /// The longest pause, in calls: 13 seconds at five calls a second.
    static let limit = 64

    /// The number of damaged bytes for which a retry after a change waits one more call.
    static let bytesPerCall: Int64 = 1 << 24

    /// - Parameters:
    ///   - evidence: The fingerprint at the failure.
    ///   - sizeInBytes: The number of bytes that a retry reads.
    ///   - earlier: The pause of the failure before, if the damage begins at the same offset.
    init(_ evidence: Evidence, sizeInBytes: Int64, after earlier: ReadingPause?) {
        self.evidence = evidence
        self.sizeInBytes = sizeInBytes
        failureCount = min((earlier?.failureCount ?? 0) + 1, 32)
    }

    /// Counts a call. Returns whether this call should read again.
    mutating func isOver(_ now: Evidence) -> Bool {
        callCount += 1
        let unchanged = min(1 << (failureCount - 1), Self.limit)
        guard now != evidence else { return callCount >= unchanged }
        let changed = min(Int(sizeInBytes / Self.bytesPerCall), Self.limit)
        return callCount >= min(unchanged, 1 + changed)
    }
}
