#if S3
import ForgeFileStore
import ForgeFileSystem

/// The condition of a request that stores an object.
enum S3Condition: Hashable, Sendable {
    case none
    case absent

    /// The object has this ETag.
    case unchanged(etag: String)

    var headers: [(String, String)] {
        switch self {
        case .none: []
        case .absent: [("If-None-Match", "*")]
        case .unchanged(let etag): [("If-Match", etag)]
        }
    }

    /// The code of a failed save.
    var failure: FileStoreError.Code { self == .absent ? .alreadyExists : .conflict }
}

/// The revision of an object: the name of the write, and the ETag.
struct S3Revision: Hashable, Sendable {
    /// Nil for objects of other programs.
    var writeID: String?
    var etag: String

    init(writeID: String?, etag: String) {
        self.writeID = writeID
        self.etag = etag
    }

    /// Reads a revision; nil for one of another kind of store.
    init?(_ revision: FileRevision) {
        let parts = revision.rawValue.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[1].isEmpty else { return nil }
        self.init(writeID: parts[0].isEmpty ? nil : String(parts[0]), etag: String(parts[1]))
    }

    var revision: FileRevision { FileRevision(rawValue: "\(writeID ?? "") \(etag)") }
}

extension S3Error {
    /// Whether a condition was not met. A server says `404` if the object that `If-Match` expects does not exist.
    func refuses(_ condition: S3Condition) -> Bool {
        guard reason == .refused, condition != .none else { return false }
        return status == 412 || code == "PreconditionFailed" || condition != .absent && code == "NoSuchKey"
    }
}
#endif
