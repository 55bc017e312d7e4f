import Measuring

/// The current speed-up of independent threads on this machine, an upper limit for every store.
enum Spinning {
    static let title = "for comparison: a loop that touches no memory"

    static func run(_ count: Int) {
        var state = UInt64(count)
        for _ in 0..<count {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
        }
        keep(state)
    }
}
