import Foundation
import Synchronization

/// The last changes of all stores, numbered in the order in which they were found.
final class Timeline: Sendable {
    struct Event: Encodable, Sendable {
        var number = 0
        /// In seconds since 1970.
        var time: Double
        var store: String
        var operation: String
        var name: String?
        var revision: UInt64?
        /// Whether it is an edit of the page.
        var isOwn = false
        /// Further changes that were found at the same time and are not listed.
        var omittedCount = 0
    }

    struct Page: Encodable, Sendable {
        /// The number of the last event.
        var last: Int
        var events: [Event]
    }

    private struct State {
        var events: [Event] = []
        var last = 0
    }

    private let state = Mutex(State())
    private static let limit = 2000

    /// The number of changes of one store that one poll lists.
    static let burst = 100

    func add(_ events: [Event]) {
        guard !events.isEmpty else { return }
        state.withLock { state in
            for var event in events {
                state.last += 1
                event.number = state.last
                state.events.append(event)
            }
            if state.events.count > 2 * Self.limit { state.events.removeFirst(state.events.count - Self.limit) }
        }
    }

    /// The events after a number.
    func events(after number: Int) -> Page {
        state.withLock { state in
            let new = state.events.drop { $0.number <= number }
            return Page(last: state.last, events: Array(new.suffix(Self.limit)))
        }
    }

    /// Waits until there is an event after a number, at most for a time; checks every 50 milliseconds.
    func events(after number: Int, waiting limit: Duration) async throws -> Page {
        let deadline = ContinuousClock.now + limit
        while true {
            let page = events(after: number)
            if page.last > number || ContinuousClock.now >= deadline { return page }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
