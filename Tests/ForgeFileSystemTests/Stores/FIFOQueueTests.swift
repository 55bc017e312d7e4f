import ForgeFileSystem
import ForgeStorageTesting
import Testing

@Suite("A first-in, first-out queue")
struct FIFOQueueTests {
    @Test("returns every element once, in order, and keeps its memory proportional to its length")
    func order() {
        var random = SplitMix64(seed: 7)
        var queue = FIFOQueue<Int>()
        var expected: [Int] = []
        #expect(queue.popFirst() == nil)
        for number in 0..<10_000 {
            // Long phases of growth and of decrease.
            if Int.random(in: 0..<10, using: &random) < (number / 500 % 2 == 0 ? 7 : 3) {
                queue.append(number)
                expected.append(number)
            } else {
                #expect(queue.popFirst() == (expected.isEmpty ? nil : expected.removeFirst()))
            }
            #expect(queue.count == expected.count)
            #expect(queue.storedCount <= 2 * queue.count + 1)
        }
    }
}
