import CForgeKVStore

/// Detects that the process has forked since the detector was created (`pthread_atfork(3)`).
///
/// A forked child has copies of the parent's descriptors and mappings: what it wrote would overwrite what the parent
/// writes, and its unlocking would release the parent's lock. A child made by a bare `clone(2)` is not detected.
struct ForkDetector: Sendable {
    private let count = forge_start_counting_forks()

    /// Whether this process is a forked child of the process that created the detector.
    @inline(__always)
    var isForkedChild: Bool { forge_forks() != count }
}
