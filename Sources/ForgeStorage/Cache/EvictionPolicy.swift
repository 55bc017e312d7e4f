/// The decision about the entry that a full cache evicts.
package enum EvictionPolicy: Sendable {
    /// New entries go to a small queue. If the cache is full, its oldest entry competes with the oldest ones of the
    /// main queue, and the one whose key was used least is evicted (W-TinyLFU; Einziger, Friedman and Manes, "TinyLFU:
    /// A Highly Efficient Cache Admission Policy", ACM Transactions on Storage, 2017).
    case frequency

    /// The oldest entry is evicted, unless it was used since it became the newest; then it becomes the newest again
    /// (CLOCK, an approximation of the least recently used).
    case recency
}
