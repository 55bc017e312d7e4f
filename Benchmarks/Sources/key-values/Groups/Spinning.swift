import Measuring

/// What threads that have nothing to do with one another reach on this machine at this time: no store can do better.
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
