import ForgeFileSystem
import ForgeStorageTesting
import Testing

@Suite("A first-in, first-out queue")
struct FIFOQueueTests {
    @Test("returns every element once and in order, but for those that were removed")
    func order() {
        var random = SplitMix64(seed: 7)
        var queue = FIFOQueue<Int>()
        var expected: [(number: Int, ticket: FIFOQueue<Int>.Ticket)] = []
        #expect(queue.popFirst() == nil)
        for number in 0..<10_000 {
            // Long phases of growth and of decrease.
            if Int.random(in: 0..<10, using: &random) < (number / 500 % 2 == 0 ? 7 : 3) {
                if Bool.random(using: &random) {
                    expected.append((number, queue.append(number)))
                } else {
                    expected.insert((number, queue.prepend(number)), at: 0)
                }
            } else if !expected.isEmpty, Bool.random(using: &random) {
                let (number, ticket) = expected.remove(at: Int.random(in: 0..<expected.count, using: &random))
                #expect(queue.remove(ticket) == number)
                #expect(queue.remove(ticket) == nil)
            } else {
                #expect(queue.popFirst() == (expected.isEmpty ? nil : expected.removeFirst().number))
            }
            #expect(queue.count == expected.count)
        }
    }
}
