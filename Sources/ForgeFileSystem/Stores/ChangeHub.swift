public import Synchronization

/// The changes of a store for its subscribers: the only mechanism by which a store reports changes.
///
/// A store calls `append` while it holds the lock of its writers, after the change has become visible to readers,
/// so that subscribers get the changes in the order of the writes; and ``wake()`` after it has released that lock.
/// Appending acquires only the lock of the hub, and calls nothing. Names are compared by their bytes.
///
/// A subscription to one name keeps each change, up to a limit; beyond it, a new change replaces the last one. A change
/// that leaves the bytes as they are is dropped. A subscription to a prefix keeps the last change of each name; if they
/// exceed ``nameLimit`` or ``byteLimit``, it delivers ``Delivery/resync`` instead. It delivers all that it keeps at
/// once, so changes that were appended together are delivered together.
public final class ChangeHub: Sendable {
    /// The names of a subscription.
    public enum Scope: Hashable, Sendable {
        /// One name, with at most this number of undelivered changes; less than 1 counts as 1.
        case name([UInt8], limit: Int)

        /// All names that begin with these bytes.
        case prefix([UInt8])
    }

    /// The state of a name after a change.
    public struct Change: Hashable, Sendable {
        /// The name.
        public var name: [UInt8]

        /// The stored bytes; nil if the name became absent.
        public var bytes: [UInt8]?

        /// The revision of the bytes; 0 if the store keeps none.
        public var revision: UInt64

        /// Creates a change.
        public init(_ name: [UInt8], bytes: [UInt8]?, revision: UInt64 = 0) {
            self.name = name
            self.bytes = bytes
            self.revision = revision
        }
    }

    /// The changes that a subscription delivers at once.
    public enum Delivery: Hashable, Sendable {
        /// Changes in the order of the first undelivered change of each name.
        case changes([Change])

        /// Any name may have changed.
        case resync
    }

    /// The largest number of undelivered names of a subscription to a prefix.
    public static let nameLimit = 10_000

    /// The largest size of the undelivered values of a subscription to a prefix.
    public static let byteLimit = 64 << 20

    private let state = Mutex(State())
    @usableFromInline let count = Atomic(0)

    /// Creates a hub without subscribers.
    public init() {}

    /// Whether there is a subscriber. Costs one load, so that a write without subscribers does no more.
    @inlinable
    public var hasSubscribers: Bool { count.load(ordering: .relaxed) > 0 }

    // MARK: Publishing

    /// Adds a change.
    public func append(_ change: Change) { append([change]) }

    /// Adds changes that take effect together. Of several changes of one name, a subscription to it gets the last.
    public func append(_ changes: [Change]) {
        guard !changes.isEmpty, hasSubscribers else { return }
        state.withLock { state in
            var last: [[UInt8]: Int] = [:]
            if changes.count > 1, !state.ofName.isEmpty {
                for (index, change) in changes.enumerated() { last[change.name] = index }
            }
            for (index, change) in changes.enumerated() {
                if last[change.name] ?? index == index {
                    for id in state.ofName[change.name] ?? [] { state.add(change, to: id) }
                }
                for (id, prefix) in state.ofPrefix where change.name.starts(with: prefix) { state.add(change, to: id) }
            }
        }
    }

    /// Adds that every name may have changed: subscriptions to a prefix deliver ``Delivery/resync``, and those to a name
    /// that it is absent.
    public func appendAll() {
        guard hasSubscribers else { return }
        state.withLock { state in
            for (name, ids) in state.ofName {
                for id in ids { state.add(Change(name, bytes: nil), to: id) }
            }
            for id in state.ofPrefix.keys { state.resync(id) }
        }
    }

    /// Adds that any name may have changed: subscriptions to a prefix deliver ``Delivery/resync``, and those to a name
    /// what `current` returns for it; nil if it is absent.
    ///
    /// `current` is called once for each name, with no lock held. A change of a name that is appended after the call of
    /// this method has begun is newer than what `current` returns, and takes its place. A name for which it throws is left
    /// out, because it may be present: its subscribers keep what they have.
    public func appendAll(_ current: (_ name: [UInt8]) throws -> (bytes: [UInt8], revision: UInt64)?) {
        guard hasSubscribers else { return }
        state.withLock { state in
            for id in state.ofPrefix.keys { state.resync(id) }
        }
        appendNames(current)
    }

    /// Adds for subscriptions to a name what `current` returns for it, as `appendAll` does; those to a prefix deliver
    /// nothing.
    package func appendNames(_ current: (_ name: [UInt8]) throws -> (bytes: [UInt8], revision: UInt64)?) {
        guard hasSubscribers else { return }
        let names = state.withLock { state in
            state.ofName.mapValues { ids in ids.map { ($0, state.subscribers[$0]?.appended ?? 0) } }
        }
        for (name, subscribers) in names {
            let change: Change
            do {
                let content = try current(name)
                change = Change(name, bytes: content?.bytes, revision: content?.revision ?? 0)
            } catch {
                continue
            }
            state.withLock { state in
                for (id, count) in subscribers where state.subscribers[id]?.appended == count {
                    state.add(change, to: id)
                }
            }
        }
    }

    /// Wakes the subscribers to which something was added. Call it with no lock held.
    public func wake() {
        guard hasSubscribers else { return }
        let ticks = state.withLock { $0.takeReady() }
        for tick in ticks { tick.yield() }
    }

    // MARK: Subscribing

    /// Subscribes to the changes from now on.
    public func subscribe(to scope: Scope) -> Subscription {
        let (ticks, tick) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state in
            let id = state.add(Subscriber(scope, tick))
            // Before the subscriber reads the store: a writer that does not see the subscriber has made its change.
            count.store(state.subscribers.count, ordering: .sequentiallyConsistent)
            return id
        }
        return Subscription(Handle(hub: self, id: id), ticks)
    }

    /// The number of subscribers.
    package var subscriberCount: Int { state.withLock { $0.subscribers.count } }

    /// Identifies a subscription, and does not keep it.
    package struct Handle: Sendable {
        fileprivate let hub: ChangeHub
        fileprivate let id: UInt64

        /// Whether the subscription has not ended.
        package var isActive: Bool { hub.state.withLock { $0.subscribers[id].map { !$0.isFinished } ?? false } }

        /// The number of changes that were added; 0 after the end.
        package var appendedCount: UInt64 { hub.state.withLock { $0.subscribers[id]?.appended ?? 0 } }

        /// Whether the consumer has received the first `count` changes and, for `isProcessed`, has requested the next
        /// one since; true after the end.
        package func hasDelivered(_ count: UInt64, isProcessed: Bool) -> Bool {
            hub.state.withLock { state in
                guard let subscriber = state.subscribers[id] else { return true }
                return (isProcessed ? subscriber.processed : subscriber.delivered) >= count
            }
        }

        /// Makes a state the first change of a subscription to a name in the place of those before it, unless more than
        /// `count` were added meanwhile; returns whether it did.
        package func begin(with bytes: [UInt8]?, revision: UInt64, after count: UInt64) -> Bool {
            hub.state.withLock { $0.begin(id, bytes, revision, after: count) }
        }

        /// Ends the subscription after its undelivered changes.
        package func finish() {
            let tick = hub.state.withLock { state in
                state.subscribers[id]?.isFinished = true
                return state.subscribers[id]?.tick
            }
            tick?.finish()
        }

        fileprivate func take() -> Taken { hub.state.withLock { $0.take(id) } }

        fileprivate func remove() {
            // Released outside the lock: the end of a stream resumes its consumer.
            let tick = hub.state.withLock { state in
                let tick = state.remove(id)
                hub.count.store(state.subscribers.count, ordering: .relaxed)
                return tick
            }
            tick?.finish()
        }
    }

    /// The changes for one consumer. The subscription ends when it is released, or the consuming task is cancelled.
    public final class Subscription: Sendable {
        package let handle: Handle
        private let ticks: AsyncStream<Void>

        fileprivate init(_ handle: Handle, _ ticks: AsyncStream<Void>) {
            self.handle = handle
            self.ticks = ticks
        }

        deinit { handle.remove() }

        /// The next changes: of one name, one; of a prefix, all. Nil at the end.
        public func next() async -> Delivery? {
            while !Task.isCancelled {
                switch handle.take() {
                case .delivery(let delivery): return delivery
                case .end: return nil
                case .nothing: break
                }
                var iterator = ticks.makeAsyncIterator()
                _ = await iterator.next()
            }
            handle.remove()
            return nil
        }
    }
}

// MARK: State

extension ChangeHub {
    fileprivate enum Taken {
        case delivery(Delivery)
        case nothing
        case end
    }

    fileprivate struct Subscriber {
        let scope: Scope
        let tick: AsyncStream<Void>.Continuation

        /// The undelivered changes from `first` on, with the number of the last change that each covers.
        var changes: [(change: Change, number: UInt64)] = []
        var first = 0

        /// For a name: the bytes of the last delivered change; nil if there is none.
        var deliveredBytes: [UInt8]??

        /// For a prefix: the places of the names in `changes`, and the size of their values.
        var places: [[UInt8]: Int] = [:]
        var size = 0
        var needsResync = false

        /// Whether the consumer is to be woken, or waits.
        var isReady = false
        var isWaiting = false
        var isFinished = false

        /// The numbers of the last change that was added, delivered, and processed.
        var appended: UInt64 = 0
        var delivered: UInt64 = 0
        var processed: UInt64 = 0

        init(_ scope: Scope, _ tick: AsyncStream<Void>.Continuation) {
            self.scope = scope
            self.tick = tick
        }
    }

    fileprivate struct State {
        var subscribers: [UInt64: Subscriber] = [:]
        var ofName: [[UInt8]: Set<UInt64>] = [:]
        var ofPrefix: [UInt64: [UInt8]] = [:]
        private var ready: [UInt64] = []
        private var lastID: UInt64 = 0

        mutating func add(_ subscriber: Subscriber) -> UInt64 {
            lastID += 1
            subscribers[lastID] = subscriber
            switch subscriber.scope {
            case .name(let name, _): ofName[name, default: []].insert(lastID)
            case .prefix(let prefix): ofPrefix[lastID] = prefix
            }
            return lastID
        }

        mutating func remove(_ id: UInt64) -> AsyncStream<Void>.Continuation? {
            guard let subscriber = subscribers.removeValue(forKey: id) else { return nil }
            switch subscriber.scope {
            case .name(let name, _):
                ofName[name]?.remove(id)
                if ofName[name]?.isEmpty == true { ofName[name] = nil }
            case .prefix: ofPrefix[id] = nil
            }
            return subscriber.tick
        }

        mutating func add(_ change: Change, to id: UInt64) {
            guard subscribers[id]?.append(change) == true else { return }
            wakeLater(id)
        }

        mutating func resync(_ id: UInt64) {
            subscribers[id]?.resync()
            wakeLater(id)
        }

        mutating func begin(_ id: UInt64, _ bytes: [UInt8]?, _ revision: UInt64, after count: UInt64) -> Bool {
            guard let subscriber = subscribers[id], case .name(let name, _) = subscriber.scope else { return true }
            guard subscriber.appended <= count else { return false }
            subscribers[id]?.forget()
            add(Change(name, bytes: bytes, revision: revision), to: id)
            return true
        }

        mutating func take(_ id: UInt64) -> Taken { subscribers[id]?.take() ?? .end }

        private mutating func wakeLater(_ id: UInt64) {
            guard subscribers[id]?.isReady == false else { return }
            subscribers[id]?.isReady = true
            ready.append(id)
        }

        mutating func takeReady() -> [AsyncStream<Void>.Continuation] {
            defer { ready = [] }
            return ready.compactMap { id in
                subscribers[id]?.isReady = false
                return subscribers[id]?.tick
            }
        }
    }
}

extension ChangeHub.Subscriber {
    /// Adds a change; returns whether there is something to deliver.
    fileprivate mutating func append(_ change: ChangeHub.Change) -> Bool {
        guard !isFinished else { return false }
        appended += 1
        switch scope {
        case .name(_, let limit): return append(change, limit: max(limit, 1))
        case .prefix:
            if !needsResync { keep(change) }
            return true
        }
    }

    private mutating func append(_ change: ChangeHub.Change, limit: Int) -> Bool {
        if changes.count - first >= limit, changes[changes.count - 1].change.bytes != change.bytes {
            // The new change replaces the last one and may equal the one before that.
            changes.removeLast()
        }
        if first == changes.count {
            if deliveredBytes == .some(change.bytes) {
                delivered = appended
                if isWaiting { processed = appended }
                return false
            }
        } else if changes[changes.count - 1].change.bytes == change.bytes {
            changes[changes.count - 1].number = appended
            return false
        }
        if first > limit {
            changes.removeFirst(first)
            first = 0
        }
        changes.append((change, appended))
        return true
    }

    private mutating func keep(_ change: ChangeHub.Change) {
        size += change.bytes?.count ?? 0
        if let place = places[change.name] {
            size -= changes[place].change.bytes?.count ?? 0
            changes[place].change = change
        } else {
            places[change.name] = changes.count
            changes.append((change, appended))
        }
        if places.count > ChangeHub.nameLimit || size > ChangeHub.byteLimit { resync() }
    }

    fileprivate mutating func resync() {
        forget()
        needsResync = true
        appended += 1
    }

    /// Forgets the undelivered changes.
    fileprivate mutating func forget() { (changes, first, places, size) = ([], 0, [:], 0) }

    fileprivate mutating func take() -> ChangeHub.Taken {
        // Requesting the next changes completes the last ones.
        processed = delivered
        isWaiting = false
        if needsResync {
            needsResync = false
            delivered = appended
            return .delivery(.resync)
        }
        guard first < changes.count else {
            isWaiting = true
            return isFinished ? .end : .nothing
        }
        guard case .name = scope else {
            let all = changes.map(\.change)
            forget()
            delivered = appended
            return .delivery(.changes(all))
        }
        let (change, number) = changes[first]
        changes[first].change.bytes = nil
        first += 1
        if first == changes.count { forget() }
        (deliveredBytes, delivered) = (.some(change.bytes), number)
        return .delivery(.changes([change]))
    }
}
