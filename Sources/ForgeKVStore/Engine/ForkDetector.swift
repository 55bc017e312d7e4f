import CForgeKVStore

/// Tells whether the process was forked since this was made (`pthread_atfork(3)`).
///
/// A forked child has copies of the parent's descriptors and mappings: what it wrote would overwrite what the parent writes,
/// and its unlocking would release the parent's lock. A child made by a bare `clone(2)` is not detected.
struct ForkDetector: Sendable {
    private let count = forge_count_forks()

    /// Whether this process is a child of the one that made this.
    @inline(__always)
    var isForkedChild: Bool { forge_forks() != count }
}
