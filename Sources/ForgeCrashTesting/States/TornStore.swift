/// How much of a store through a mapping may be there: the process may be killed while the bytes are copied, or the
/// page written out.
enum TornStore {
    /// The ranges of bytes that may be there alone, word by word, from either end.
    ///
    /// Of a long store, all words near its ends and one in each cache line are enough.
    static func parts(of store: Range<Int>) -> [Range<Int>] {
        var parts: [Range<Int>] = []
        for tear in stride(from: store.lowerBound / 8 * 8 + 8, to: store.upperBound, by: 8) {
            let isNearEnd = min(tear - store.lowerBound, store.upperBound - tear) <= 128
            guard isNearEnd || tear % 64 == 0 else { continue }
            parts += [store.lowerBound..<tear, tear..<store.upperBound]
        }
        return parts
    }
}
