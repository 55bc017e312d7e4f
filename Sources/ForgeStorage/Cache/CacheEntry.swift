import Foundation

/// An entry in memory.
final class CacheEntry<Value: Sendable>: Sendable {
    /// Nil if the entry says that there is no value.
    let value: Value?
    let tag: String?
    /// In milliseconds since 1970; nil for no end.
    let expiry: Int64?

    init(value: Value?, tag: String?, expiry: Int64?) {
        (self.value, self.tag, self.expiry) = (value, tag, expiry)
    }

    /// The time since the expiry in milliseconds; nil if the entry lives.
    func staleness(at now: () -> Date) -> Int64? {
        guard let expiry else { return nil }
        let now = now().milliseconds
        let (difference, overflows) = now.subtractingReportingOverflow(expiry)
        guard now >= expiry else { return nil }
        return overflows ? .max : difference
    }

    var stale: StaleCacheEntry<Value> {
        StaleCacheEntry(
            value: value, tag: tag, expiredAt: Date(timeIntervalSince1970: Double(expiry ?? .max) / 1000))
    }
}

extension Date {
    /// Milliseconds since 1970, rounded down and limited to the range of the type.
    var milliseconds: Int64 {
        let milliseconds = (timeIntervalSince1970 * 1000).rounded(.down)
        return Int64(exactly: milliseconds) ?? (milliseconds < 0 ? .min : .max)
    }

    /// The end of a lifetime that begins now; nil for none.
    func expiry(after lifetime: Duration?) -> Int64? {
        guard let lifetime else { return nil }
        let (sum, overflows) = milliseconds.addingReportingOverflow(lifetime.milliseconds)
        return overflows || sum == .max ? nil : sum
    }
}

extension Duration {
    /// Whole milliseconds, limited to a century.
    var milliseconds: Int64 {
        let (seconds, attoseconds) = bounded.components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}
