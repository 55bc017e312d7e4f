import Synchronization

/// The elements that a consumer has not taken yet: at most a given number, after which the newest replaces the last.
final class KVStreamBuffer<Value: Sendable>: Sendable {
    private struct State {
        var elements: [Value?] = []
        /// The elements before this one are taken.
        var first = 0
        var waiting: [CheckedContinuation<Value??, Never>] = []
        var isFinished = false

        mutating func pop() -> Value?? {
            guard first < elements.count else { return nil }
            let element = elements[first]
            elements[first] = nil
            first += 1
            if first == elements.count {
                elements.removeAll(keepingCapacity: true)
                first = 0
            }
            return .some(element)
        }
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) {
        self.limit = max(limit, 1)
    }

    /// Adds an element, or hands it to the consumer that waits.
    func push(_ element: Value?) {
        let waiting = state.withLock { state -> CheckedContinuation<Value??, Never>? in
            guard !state.isFinished else { return nil }
            if !state.waiting.isEmpty { return state.waiting.removeFirst() }
            if state.elements.count - state.first >= limit {
                state.elements[state.elements.count - 1] = element
                return nil
            }
            if state.first > limit {
                state.elements.removeFirst(state.first)
                state.first = 0
            }
            state.elements.append(element)
            return nil
        }
        waiting?.resume(returning: .some(element))
    }

    /// Lets every consumer end, at once.
    func finish() {
        end(keepingElements: false)
    }

    /// Lets the consumer end after what is there already.
    func finishAfterLast() {
        end(keepingElements: true)
    }

    private func end(keepingElements: Bool) {
        let waiting = state.withLock { state in
            state.isFinished = true
            if !keepingElements {
                state.elements = []
                state.first = 0
            }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume(returning: nil) }
    }

    /// The next element, waited for; nil at the end.
    func next(isolation actor: isolated (any Actor)? = #isolation) async -> Value?? {
        await withCheckedContinuation { continuation in
            let answer = state.withLock { state -> Value??? in
                if let element = state.pop() { return .some(.some(element)) }
                if state.isFinished { return .some(nil) }
                state.waiting.append(continuation)
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }
}
