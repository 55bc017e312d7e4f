/// A problem of a ``BoundedCache`` with one key. It contains no value.
public struct CacheError: Error {
    /// The failed operation.
    public enum Operation: String, Hashable, Sendable {
        /// Reading an entry from disk; the value was loaded.
        case read = "read"
        /// Decoding an entry from disk; the value was loaded.
        case decode = "decode"
        /// Encoding a value; it is in memory only.
        case encode = "encode"
        /// Storing an entry on disk, or removing evicted ones; the value is in memory.
        case write = "write"
        /// Loading a value for which a stale one was returned, or that was loaded in advance.
        case load = "load"
        /// A load without a stale entry answered ``CacheLoad/notModified(expiresAfter:)``.
        case renew = "renew"
    }

    /// The failed operation.
    public let operation: Operation

    /// The key.
    public let key: String

    /// The error of the operation.
    public let underlying: (any Error)?
}

extension CacheError: CustomStringConvertible {
    public var description: String {
        "\(operation.rawValue) the cache entry \(key.debugDescription)" + (underlying.map { ": \($0)" } ?? ": no entry")
    }
}
