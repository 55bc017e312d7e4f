public import ForgeFileSystem

/// An unsafe pattern in a log: one of the mistakes that Pillai et al. found in most programs ("All File Systems Are Not
/// Created Equal", OSDI 2014).
public struct LintFinding: Hashable, Sendable {
    /// The pattern.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The name may become durable before the content: after a power cut the file may be empty and the old one
        /// lost.
        case renamedUnsynchronizedData = "renamed a file with unsynchronised data"

        /// Acknowledged while a created, moved or removed name could still be undone.
        case acknowledgedUnsynchronizedName = "acknowledged with an unsynchronised name"

        /// Acknowledged while content could still be lost.
        case acknowledgedUnsynchronizedData = "acknowledged with unsynchronised data"

        /// No open descriptor is left to report a later write-back failure.
        case closedDirtyFile = "closed a dirty file without synchronising"

        /// After a power cut, old and new content may be mixed.
        case wroteInPlace = "wrote in place over synchronised data"

        /// A name was added or moved, and its directory was never synchronised afterwards.
        case directoryNeverSynchronized = "directory never synchronised after create/rename"

        /// A success after a failure does not cover the data that the failure lost.
        case retriedSynchronization = "synchronised again after a failure, without writing anew"
    }

    /// The pattern.
    public let kind: Kind

    /// The sequence number of the offending entry.
    public let sequence: Int

    /// The path as it appears in the log.
    public let path: POSIXPath?

    init(_ kind: Kind, _ sequence: Int, _ path: POSIXPath?) {
        self.kind = kind
        self.sequence = sequence
        self.path = path
    }
}

extension LintFinding: CustomStringConvertible {
    public var description: String {
        "line \(sequence): \(kind.rawValue)" + (path.map { ": \($0)" } ?? "")
    }
}
