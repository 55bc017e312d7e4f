/// The parts of a store through a mapping that may exist after a kill during the copy, or a write-back of the page.
enum TornStore {
    /// The ranges of bytes that may exist alone, word by word, from either end.
    ///
    /// For a long store, all words near its ends and one per cache line suffice.
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
