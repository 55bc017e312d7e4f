/// A first-in, first-out queue in an array, whose memory stays proportional to its length.
package struct FIFOQueue<Element> {
    /// The elements from `first` on are in the queue.
    private var storage: [Element] = []
    private var first = 0

    package init() {}

    /// The number of elements.
    package var count: Int { storage.count - first }

    /// The number of elements in the array, those that were removed included; at most one more than twice ``count``.
    package var storedCount: Int { storage.count }

    /// Adds an element at the end.
    package mutating func append(_ element: Element) {
        storage.append(element)
    }

    /// Removes the first element; nil if there is none.
    ///
    /// - Complexity: O(1), amortised.
    package mutating func popFirst() -> Element? {
        guard first < storage.count else { return nil }
        let element = storage[first]
        first += 1
        if first > storage.count / 2 {
            storage.removeFirst(first)
            first = 0
        }
        return element
    }
}
