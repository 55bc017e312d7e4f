/// The result of loading the value of a key.
public enum CacheLoad<Value: Sendable>: Sendable {
    /// A value, its lifetime (nil for no end) and a tag to ask for changes with, such as an entity tag of HTTP.
    case value(Value, expiresAfter: Duration? = nil, tag: String? = nil)

    /// The stale entry is still right and lives on for this time, with its tag.
    case notModified(expiresAfter: Duration? = nil)

    /// There is no value; that is remembered for this time.
    case absent(expiresAfter: Duration)
}
