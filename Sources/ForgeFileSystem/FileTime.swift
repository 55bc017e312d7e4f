/// A point in time as file systems store it: seconds since 1970 and nanoseconds; may be before 1970.
public struct FileTime: Hashable, Sendable, Comparable {
    /// Whole seconds since 1970-01-01 00:00:00 UTC, rounded down; negative before.
    public var seconds: Int64

    /// Nanoseconds after ``seconds``, 0 to 999,999,999.
    public var nanoseconds: Int32

    /// Creates a time.
    public init(seconds: Int64, nanoseconds: Int32 = 0) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    public static func < (left: FileTime, right: FileTime) -> Bool {
        (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
    }
}
