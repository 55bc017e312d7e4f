import Synchronization

/// A change that a stream has not delivered yet. Its value is decoded when it is delivered, by the consumer.
struct KVStreamElement<Value: Codable & Sendable>: Sendable {
    var content: KVContent
    var revision: UInt64?

    /// The number of the write.
    var write: UInt64 = 0

    /// The value, if the content is not known.
    var value: Value?
}

/// The undelivered elements of a stream, up to a limit; beyond it a new element replaces the last.
///
/// Consecutive elements with equal content are coalesced into the first.
final class KVStreamBuffer<Value: Codable & Sendable>: Sendable {
    typealias Element = KVStreamElement<Value>
    private typealias Consumer = CheckedContinuation<Element?, Never>

    private struct Pending {
        var element: Element

        /// The sequence number of the last push that this element covers.
        var number: UInt64
    }

    private struct State {
        var elements: [Pending?] = []
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

        mutating func pop() -> Element? {
            guard first < elements.count, let pending = elements[first] else { return nil }
            elements[first] = nil
            first += 1
            if first == elements.count {
                elements.removeAll(keepingCapacity: true)
                first = 0
            }
            lastContent = pending.element.content
            deliveredNumber = pending.number
            return pending.element
        }

        /// Appends an element, or coalesces it with the last. Returns whether it differs from that.
        mutating func append(_ element: Element, limit: Int) -> Bool {
            let content = element.content
            pushedNumber += 1
            if elements.count - first >= limit, (elements.last ?? nil)?.element.content != content {
                // The new element replaces the last and may equal the one before that.
                elements.removeLast()
            }
            if first == elements.count {
                if lastContent == content {
                    deliveredNumber = pushedNumber
                    if !waiting.isEmpty { processedNumber = pushedNumber }
                    return false
                }
            } else if elements[elements.count - 1]?.element.content == content {
                elements[elements.count - 1]?.number = pushedNumber
                return false
            }
            if first > limit {
                elements.removeFirst(first)
                first = 0
            }
            elements.append(Pending(element: element, number: pushedNumber))
            return true
        }

        /// Takes the next element together with a waiting consumer.
        mutating func takeConsumer() -> (Consumer, Element)? {
            guard !waiting.isEmpty, let element = pop() else { return nil }
            return (waiting.removeFirst(), element)
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

    /// Appends an element, or delivers it to a waiting consumer. Returns whether its content differs from that of the
    /// element before.
    @discardableResult
    func push(_ element: Element) -> Bool {
        let (isNew, consumer, observers) = state.withLock { state in
            guard !state.isFinished else {
                return (false, nil as (Consumer, Element)?, [] as [CheckedContinuation<Void, Never>])
            }
            let isNew = state.append(element, limit: limit)
            return (isNew, state.takeConsumer(), state.takeObservers())
        }
        if let (continuation, element) = consumer { continuation.resume(returning: element) }
        for observer in observers { observer.resume() }
        return isNew
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
    func next(isolation actor: isolated (any Actor)? = #isolation) async -> Element? {
        await withCheckedContinuation { (continuation: Consumer) in
            let (answer, observers) = state.withLock { state in
                // Requesting the next element completes the previous one.
                state.processedNumber = state.deliveredNumber
                let answer: Element??
                if let element = state.pop() {
                    answer = .some(element)
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

    /// The content of a value that is not stored as bytes.
    init<Value>(of value: Value?, _ key: KVKey<Value>) {
        guard let value else {
            self = .unknown
            return
        }
        do {
            self = .bytes(try ValueTable.encode(value, for: key))
        } catch {
            self = .unknown
        }
    }

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
