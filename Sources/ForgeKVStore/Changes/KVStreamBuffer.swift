import Synchronization

/// The undelivered elements of a stream, up to a limit; beyond it a new element replaces the last.
///
/// Consecutive elements with equal content are coalesced into the first.
final class KVStreamBuffer<Value: Codable & Sendable>: Sendable {
    private typealias Consumer = CheckedContinuation<KVChange<Value>?, Never>

    private struct Element {
        var change: KVChange<Value>
        var content: KVContent

        /// The sequence number of the last push that this element covers.
        var number: UInt64
    }

    private struct State {
        var elements: [Element?] = []
        /// The index of the first undelivered element.
        var first = 0
        var waiting: [Consumer] = []
        var isFinished = false

        /// The content of the last delivered element.
        var lastContent: KVContent?

        var pushedNumber: UInt64 = 0
        var deliveredNumber: UInt64 = 0
        var processedNumber: UInt64 = 0
        var observers = KVStreamObservers()

        mutating func pop() -> KVChange<Value>? {
            guard first < elements.count, let element = elements[first] else { return nil }
            elements[first] = nil
            first += 1
            if first == elements.count {
                elements.removeAll(keepingCapacity: true)
                first = 0
            }
            lastContent = element.content
            deliveredNumber = element.number
            return element.change
        }

        /// Appends an element, or coalesces it with the last.
        mutating func append(_ change: KVChange<Value>, _ content: KVContent, limit: Int) {
            pushedNumber += 1
            if elements.count - first >= limit, (elements.last ?? nil)?.content != content {
                // The new element replaces the last and may equal the one before that.
                elements.removeLast()
            }
            if first == elements.count {
                if lastContent == content {
                    deliveredNumber = pushedNumber
                    if !waiting.isEmpty { processedNumber = pushedNumber }
                    return
                }
            } else if elements[elements.count - 1]?.content == content {
                elements[elements.count - 1]?.number = pushedNumber
                return
            }
            if first > limit {
                elements.removeFirst(first)
                first = 0
            }
            elements.append(Element(change: change, content: content, number: pushedNumber))
        }

        /// Takes the next element together with a waiting consumer.
        mutating func takeConsumer() -> (Consumer, KVChange<Value>)? {
            guard !waiting.isEmpty, let change = pop() else { return nil }
            return (waiting.removeFirst(), change)
        }

        mutating func takeObservers() -> [CheckedContinuation<Void, Never>] {
            observers.take(
                delivered: isFinished ? .max : deliveredNumber, processed: isFinished ? .max : processedNumber)
        }
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) {
        self.limit = max(limit, 1)
    }

    /// Appends an element, or delivers it to a waiting consumer.
    func push(_ change: KVChange<Value>, _ content: KVContent) {
        let (consumer, observers) = state.withLock { state in
            guard !state.isFinished else {
                return (nil as (Consumer, KVChange<Value>)?, [] as [CheckedContinuation<Void, Never>])
            }
            state.append(change, content, limit: limit)
            return (state.takeConsumer(), state.takeObservers())
        }
        if let (continuation, change) = consumer { continuation.resume(returning: change) }
        for observer in observers { observer.resume() }
    }

    /// Ends the stream and discards undelivered elements.
    func finish() {
        end(keepingElements: false)
    }

    /// Ends the stream after the undelivered elements.
    func finishAfterLast() {
        end(keepingElements: true)
    }

    private func end(keepingElements: Bool) {
        let (waiting, observers) = state.withLock { state in
            state.isFinished = true
            if !keepingElements {
                state.elements = []
                state.first = 0
            }
            defer { state.waiting = [] }
            return (state.waiting, state.takeObservers())
        }
        for continuation in waiting { continuation.resume(returning: nil) }
        for observer in observers { observer.resume() }
    }

    /// Waits for the next element; nil at the end.
    func next(isolation actor: isolated (any Actor)? = #isolation) async -> KVChange<Value>? {
        await withCheckedContinuation { (continuation: Consumer) in
            let (answer, observers) = state.withLock { state in
                // Requesting the next element completes the previous one.
                state.processedNumber = state.deliveredNumber
                let answer: KVChange<Value>??
                if let change = state.pop() {
                    answer = .some(change)
                } else if state.isFinished {
                    answer = .some(nil)
                } else {
                    state.waiting.append(continuation)
                    answer = nil
                }
                return (answer, state.takeObservers())
            }
            if let answer { continuation.resume(returning: answer) }
            for observer in observers { observer.resume() }
        }
    }

    /// Waits until the consumer has made this progress on everything pushed before the call, or has ended.
    func wait(for progress: KVStreamProgress) async {
        let id = KVStreamObservers.ID()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let observers = state.withLock { state in
                    state.observers.add(id, progress, state.pushedNumber, continuation)
                    return state.takeObservers()
                }
                for observer in observers { observer.resume() }
            }
        } onCancel: {
            let observer = state.withLock { $0.observers.cancel(id) }
            observer?.resume()
        }
        state.withLock { $0.observers.forget(id) }
    }
}

/// The identity of a stream element, used to drop repeated values.
enum KVContent: Equatable, Sendable {
    case absent
    case bytes([UInt8])

    /// Unknown content, which equals nothing.
    case unknown

    static func == (left: KVContent, right: KVContent) -> Bool {
        switch (left, right) {
        case (.absent, .absent): true
        case (.bytes(let left), .bytes(let right)): left == right
        default: false
        }
    }
}

/// The progress of a stream's consumer.
enum KVStreamProgress: Sendable {
    /// The consumer has received the element.
    case delivered

    /// The consumer has requested the next element.
    case processed
}
