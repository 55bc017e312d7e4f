import Measuring

/// What it takes on this machine at this time to follow a pointer to something that has not been looked at for a while:
/// a look-up among many keys follows two or three, one after another.
final class DependentLoads {
    static let title = "for comparison: following a pointer, one of as many"

    /// Each says where the next is; they are two lines of a cache apart.
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
