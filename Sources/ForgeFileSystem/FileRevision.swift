/// Identifies the content of a file: two revisions of one file are equal only if its content was not replaced or
/// written between them.
///
/// To be compared and stored, not interpreted. On a file system of this machine it consists of inode number,
/// modification time and size. The stores give every file they write a modification time of its own to the nanosecond,
/// so a reused inode number does not repeat a revision. A program that writes to a file in place and then restores its
/// modification time keeps the revision; on file systems that store times in seconds, such as FAT, so does a
/// replacement of the same size within that time that reuses the inode number.
public struct FileRevision: RawRepresentable, Hashable, Sendable {
    /// Numbers for a file of this machine, because formatting them takes longer than reading them.
    private enum Content: Hashable {
        case file(inode: UInt64, seconds: Int64, nanoseconds: Int32, sizeInBytes: Int64)
        case text(String)
    }

    private let content: Content

    /// The revision of a regular file with this status.
    public init(_ status: FileStatus) {
        content = .file(
            inode: status.inode, seconds: status.modified.seconds, nanoseconds: status.modified.nanoseconds,
            sizeInBytes: status.sizeInBytes)
    }

    /// Creates a revision from its text, which may be that of any store.
    public init(rawValue: String) {
        content = Self.file(rawValue) ?? .text(rawValue)
    }

    /// The text of the revision.
    public var rawValue: String {
        switch content {
        case .file(let inode, let seconds, let nanoseconds, let size): "\(inode).\(seconds).\(nanoseconds).\(size)"
        case .text(let text): text
        }
    }

    private static func file(_ text: String) -> Content? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4, let inode = UInt64(parts[0]), let seconds = Int64(parts[1]),
            let nanoseconds = Int32(parts[2]), let size = Int64(parts[3])
        else { return nil }
        let content = Content.file(inode: inode, seconds: seconds, nanoseconds: nanoseconds, sizeInBytes: size)
        // Other spellings of the same numbers are other texts.
        return "\(inode).\(seconds).\(nanoseconds).\(size)" == text ? content : nil
    }
}

extension FileRevision: Codable {}

extension FileRevision: CustomStringConvertible {
    public var description: String { rawValue }
}
