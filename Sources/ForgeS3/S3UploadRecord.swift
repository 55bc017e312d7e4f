#if S3
import Foundation

/// What the store keeps about an upload from before its beginning until its end, to remove it if its process ends
/// first.
struct S3UploadRecord: Codable, Hashable {
    var version = 1
    var object: String

    /// The name of the upload; nil before it has begun.
    var upload: String?

    /// Whether attempts to begin it may have begun others, whose names are not known.
    var hasOthers: Bool?

    /// The time for the beginning of the upload, in seconds.
    var seconds: Double

    init(object: String, seconds: Double) {
        self.object = object
        self.seconds = seconds
    }

    /// Whether the record can be one of a store with a prefix. An empty upload ID is not valid: a request to abort that
    /// upload could delete the object instead.
    func isValid(prefix: String) -> Bool {
        object.utf8.starts(with: prefix.utf8) && upload != "" && (0...1_000_000).contains(seconds)
    }

    /// Whether an upload to the object which began at a time may be one without a name.
    ///
    /// The record is stored before the upload begins and again afterwards, with the server's time.
    func mayBeOwn(begun time: Date, recorded: Date) -> Bool {
        abs(time.timeIntervalSince(recorded)) <= 2 * seconds + 60
    }
}
#endif
