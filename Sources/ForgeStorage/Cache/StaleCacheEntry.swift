public import Foundation

/// An entry whose lifetime has ended.
public struct StaleCacheEntry<Value: Sendable>: Sendable {
    /// The value; nil if the entry said that there is none.
    public let value: Value?

    /// The tag that it was stored with.
    public let tag: String?

    /// The end of its lifetime.
    public let expiredAt: Date
}
