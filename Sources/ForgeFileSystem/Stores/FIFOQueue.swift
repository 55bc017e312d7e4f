/// A first-in, first-out queue from which any element can be removed.
///
/// Its memory is proportional to its length. Operations take O(1), amortised, unless stated otherwise.
package struct FIFOQueue<Element> {
    /// Identifies an element in the queue.
    package typealias Ticket = Int64

    private var elements: [Ticket: Element] = [:]
    /// No element has a smaller ticket.
    private var first: Ticket = 0
    private var next: Ticket = 0

    package init() {}

    /// The number of elements.
    package var count: Int { elements.count }

    /// Adds an element at the end.
    ///
    /// - Returns: The ticket with which ``remove(_:)`` finds it.
    package mutating func append(_ element: Element) -> Ticket {
        defer { next += 1 }
        elements[next] = element
        return next
    }

    /// Adds an element before all others.
    ///
    /// - Returns: The ticket with which ``remove(_:)`` finds it.
    package mutating func prepend(_ element: Element) -> Ticket {
        first -= 1
        elements[first] = element
        return first
    }

    /// Removes the first element; nil if there is none.
    package mutating func popFirst() -> Element? {
        while first < next {
            defer { first += 1 }
            if let element = elements.removeValue(forKey: first) { return element }
        }
        return nil
    }

    /// Removes an element; nil if it is no longer in the queue.
    @discardableResult
    package mutating func remove(_ ticket: Ticket) -> Element? { elements.removeValue(forKey: ticket) }

    /// Removes and returns the elements that satisfy a condition, in any order. Takes O(length).
    package mutating func removeAll(where isRemoved: (Element) -> Bool) -> [Element] {
        let removed = elements.filter { isRemoved($0.value) }
        for ticket in removed.keys { elements[ticket] = nil }
        return Array(removed.values)
    }

    /// The elements, in any order.
    package var all: some Collection<Element> { elements.values }
}
