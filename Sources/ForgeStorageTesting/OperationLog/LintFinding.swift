public import ForgeFileSystem

/// A place in a log where a power cut could do harm: the mistakes that Pillai et al. found in most programs ("All File
/// Systems Are Not Created Equal", OSDI 2014).
public struct LintFinding: Hashable, Sendable {
    /// What was done wrong.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The name may reach the device before the content: the file may be empty, and what it replaced is gone.
        case renamedUnsynchronizedData = "renamed a file with unsynchronised data"

        /// The promise was made while a new, moved or removed name could still be undone.
        case acknowledgedUnsynchronizedName = "acknowledged with an unsynchronised name"

        /// The promise was made while content could still be lost.
        case acknowledgedUnsynchronizedData = "acknowledged with unsynchronised data"

        /// Nobody has the file open any more who could find out that its content never reached the device.
        case closedDirtyFile = "closed a dirty file without synchronising"

        /// After a power cut there may be a mixture of old and new.
        case wroteInPlace = "wrote in place over synchronised data"

        /// A name was added or moved, and its directory was not synchronised to the end of the log.
        case directoryNeverSynchronized = "directory never synchronised after create/rename"

        /// A success after a failure does not cover what the failure lost.
        case retriedSynchronization = "synchronised again after a failure, without writing anew"
    }

    /// What was done wrong.
    public let kind: Kind

    /// The line of the log that did it.
    public let sequence: Int

    /// The file, or the name in its directory, as the log tells it.
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
