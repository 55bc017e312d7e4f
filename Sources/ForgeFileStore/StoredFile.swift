public import ForgeFileSystem
public import Foundation

/// A file or directory of a store, as contained in listings.
public struct StoredFile: Hashable, Sendable {
    /// The kind of entry at a key.
    public enum Kind: String, Hashable, Sendable {
        /// A file.
        case file

        /// A directory.
        case directory

        /// An entry that no store creates: a link, a FIFO, a device. Reading, replacing and deleting it fail with
        /// ``FileStoreError/Code/unsafe(_:)``.
        case other
    }

    /// The key, a path relative to the store.
    public var key: String

    /// The kind of entry.
    public var kind: Kind

    /// The length of the content; 0 for other entries than files.
    public var sizeInBytes: Int64

    /// The time of the last change of the content; of a directory, of its entries.
    public var modified: Date

    /// Identifies the content of a file; nil for other entries, and in a store without revisions.
    public var revision: FileRevision?

    /// Creates the description of a file or directory.
    public init(
        key: String, kind: Kind = .file, sizeInBytes: Int64, modified: Date, revision: FileRevision? = nil
    ) {
        self.key = key
        self.kind = kind
        self.sizeInBytes = sizeInBytes
        self.modified = modified
        self.revision = revision
    }

    /// The last component of the key.
    public var name: String {
        let bytes = key.utf8
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return key }
        return String(key[bytes.index(after: slash)...])
    }

    /// Whether this is a directory.
    public var isDirectory: Bool { kind == .directory }
}

extension Sequence<StoredFile> {
    /// The total size of all files, clamped to the maximum.
    var totalSizeInBytes: Int64 {
        reduce(0) { sum, file in
            let (next, overflow) = sum.addingReportingOverflow(file.sizeInBytes)
            return overflow ? .max : next
        }
    }
}
