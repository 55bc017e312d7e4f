/// The counts and findings of threads.
struct Tally: Sendable {
    var reads = 0
    var writes = 0

    /// Values that no write has stored under the key that they were read from.
    var foreign = 0

    /// Values older than one that the same thread has read from the same key before.
    var stale = 0

    /// Missing values of keys that are never removed.
    var missing = 0

    /// The first few wrong values and errors.
    var findings: [String] = []

    var isClean: Bool { foreign == 0 && stale == 0 && missing == 0 && findings.isEmpty }

    mutating func note(_ finding: @autoclosure () -> String) {
        if findings.count < 10 { findings.append(finding()) }
    }

    mutating func add(_ other: Tally) {
        reads += other.reads
        writes += other.writes
        foreign += other.foreign
        stale += other.stale
        missing += other.missing
        for finding in other.findings { note(finding) }
    }
}
