import Measuring

/// The current cost of following a pointer to uncached memory on this machine: a look-up among many keys follows two or
/// three in sequence.
final class DependentLoads {
    static let title = "for comparison: following a pointer, one of as many"

    /// The index of the next element, two cache lines away.
    private var next: [Int]
    private static let stride = 16

    init(_ count: Int) {
        let order = (0..<count).shuffled()
        next = Array(repeating: 0, count: count * Self.stride)
        for (index, place) in order.enumerated() {
            next[place * Self.stride] = order[(index + 1) % count] * Self.stride
        }
    }

    func run(_ count: Int) {
        var place = 0
        for _ in 0..<count { place = next[place] }
        keep(place)
    }
}
