import ForgeFileSystem
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("The changes of a store reach its subscribers", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct ChangeHubTests {
    private let hub = ChangeHub()

    private func change(_ name: String, _ value: UInt8?, _ revision: UInt64 = 0) -> ChangeHub.Change {
        ChangeHub.Change(Array(name.utf8), bytes: value.map { [$0] }, revision: revision)
    }

    private func subscribe(toName name: String, limit: Int = 128) -> ChangeHub.Subscription {
        hub.subscribe(to: .name(Array(name.utf8), limit: limit))
    }

    private func subscribe(toPrefix prefix: String) -> ChangeHub.Subscription {
        hub.subscribe(to: .prefix(Array(prefix.utf8)))
    }

    @Test("a subscription to a name gets each change in order, without those that change nothing")
    func name() async {
        let subscription = subscribe(toName: "a")
        for value in [1, 1, 2, nil, nil, 1] as [UInt8?] { hub.append(change("a", value)) }
        hub.append(change("b", 9))
        hub.wake()
        for value in [1, 2, nil, 1] as [UInt8?] {
            #expect(await subscription.next() == .changes([change("a", value)]))
        }
    }

    @Test("beyond the limit a new change replaces the last one", arguments: [1, 2, 5])
    func limit(_ limit: Int) async {
        let subscription = subscribe(toName: "a", limit: limit)
        for value in 1...10 { hub.append(change("a", UInt8(value))) }
        for value in (1..<limit).map({ $0 }) + [10] {
            #expect(await subscription.next() == .changes([change("a", UInt8(value))]))
        }
    }

    @Test("a subscription that always has a change left gets each one", arguments: [2, 5])
    func neverEmpty(_ limit: Int) async {
        let subscription = subscribe(toName: "a", limit: limit)
        hub.append(change("a", 0))
        for value in 1...20 as ClosedRange<UInt8> {
            hub.append(change("a", value))
            #expect(await subscription.next() == .changes([change("a", value - 1)]))
        }
    }

    @Test("a subscription to a prefix gets the last change of each name at once")
    func prefix() async {
        let subscription = subscribe(toPrefix: "p/")
        hub.append([change("p/a", 1), change("q", 1), change("p/b", 1)])
        hub.append([change("p/b", nil, 2), change("p/a", 3, 3)])
        hub.wake()
        #expect(await subscription.next() == .changes([change("p/a", 3, 3), change("p/b", nil, 2)]))
        hub.append(change("p/a", 3, 3))
        #expect(await subscription.next() == .changes([change("p/a", 3, 3)]))
    }

    @Test("names are compared by their bytes")
    func bytes() async {
        let composed = subscribe(toName: "\u{E9}")
        let prefixed = subscribe(toPrefix: "e")
        hub.append([change("e\u{301}", 1), change("\u{E9}", 2)])
        #expect(await composed.next() == .changes([change("\u{E9}", 2)]))
        #expect(await prefixed.next() == .changes([change("e\u{301}", 1)]))
    }

    @Test("too many names or bytes become a resync, after which changes are reported again")
    func resync() async {
        let subscription = subscribe(toPrefix: "")
        hub.append((0...ChangeHub.nameLimit).map { change("\($0)", 1) })
        #expect(await subscription.next() == .resync)
        hub.append(ChangeHub.Change([1], bytes: [UInt8](repeating: 0, count: ChangeHub.byteLimit + 1)))
        hub.append(change("a", 1))
        #expect(await subscription.next() == .resync)
        hub.append(change("a", 2))
        #expect(await subscription.next() == .changes([change("a", 2)]))
    }

    @Test("as many names, or bytes, as the limits allow are reported, however often they change")
    func atLimits() async {
        let subscription = subscribe(toPrefix: "")
        hub.append((0..<ChangeHub.nameLimit).map { change("\($0)", 1) })
        hub.append(change("0", 2))
        if case .changes(let changes)? = await subscription.next() {
            #expect(changes.count == ChangeHub.nameLimit)
        } else {
            Issue.record("no changes")
        }
        let large = ChangeHub.Change([1], bytes: [UInt8](repeating: 0, count: ChangeHub.byteLimit))
        for _ in 0..<2 {
            hub.append([large, large])
            let isReported = await subscription.next() == .changes([large])
            #expect(isReported)
        }
    }

    @Test("a change of everything is a resync of a prefix, and the present state of a name")
    func everything() async {
        let (prefix, name) = (subscribe(toPrefix: ""), subscribe(toName: "a"))
        hub.append(change("a", 1))
        hub.appendAll { $0 == Array("a".utf8) ? ([7], 5) : nil }
        #expect(await prefix.next() == .resync)
        #expect(await name.next() == .changes([change("a", 1)]))
        #expect(await name.next() == .changes([change("a", 7, 5)]))
        hub.appendAll()
        #expect(await prefix.next() == .resync)
        #expect(await name.next() == .changes([ChangeHub.Change(Array("a".utf8), bytes: nil)]))
    }

    @Test("the present state of a name is asked for with no lock held, and gives way to a change made meanwhile")
    func presentState() async {
        let (a, b) = (subscribe(toName: "a"), subscribe(toName: "b"))
        hub.appendAll { name in
            #expect(hub.subscriberCount == 2)
            if name == Array("a".utf8) { hub.append(change("a", 2, 9)) }
            return ([1], 8)
        }
        #expect(await a.next() == .changes([change("a", 2, 9)]))
        #expect(await b.next() == .changes([change("b", 1, 8)]))
        hub.append(change("a", 3, 10))
        #expect(await a.next() == .changes([change("a", 3, 10)]))
    }

    @Test("the present states of names are not delivered to a subscription to a prefix")
    func presentNames() async {
        let (a, prefix) = (subscribe(toName: "a"), subscribe(toPrefix: ""))
        hub.appendNames { _ in ([1], 8) }
        #expect(await a.next() == .changes([change("a", 1, 8)]))
        hub.append(change("b", 2))
        #expect(await prefix.next() == .changes([change("b", 2)]))
    }

    @Test("a name whose present state cannot be read is left out, and is not reported as absent")
    func unreadable() async {
        let (a, b) = (subscribe(toName: "a"), subscribe(toName: "b"))
        hub.appendAll { name in
            if name == Array("a".utf8) { throw FileSystemError(.read, .ioError) }
            return ([1], 8)
        }
        #expect(await b.next() == .changes([change("b", 1, 8)]))
        hub.append(change("a", 3, 10))
        #expect(await a.next() == .changes([change("a", 3, 10)]))
    }

    @Test("the last of several changes of a batch is that of a name")
    func batch() async {
        let subscription = subscribe(toName: "a")
        hub.append([change("a", 1), change("b", 1), change("a", 2)])
        #expect(await subscription.next() == .changes([change("a", 2)]))
    }

    @Test("a waiting consumer is woken by `wake`, and ends when its task is cancelled")
    func waking() async {
        let subscription = subscribe(toName: "a")
        let (started, start) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            start.yield()
            var count = 0
            while await subscription.next() != nil {
                count += 1
                start.yield()
            }
            return count
        }
        var starts = started.makeAsyncIterator()
        await starts.next()
        hub.append(change("a", 1))
        hub.wake()
        await starts.next()
        task.cancel()
        #expect(await task.value == 1)
        #expect(!hub.hasSubscribers)
    }

    @Test("a released subscription is forgotten")
    func released() {
        do {
            let subscription = subscribe(toName: "a")
            #expect(hub.hasSubscribers)
            withExtendedLifetime(subscription) {}
        }
        #expect(!hub.hasSubscribers)
    }

    @Test("of many writers under one lock, every subscriber sees the order of their changes")
    func manyWriters() async {
        let subscriptions = (0..<3).map { _ in subscribe(toName: "a", limit: 10_000) }
        let writer = SerialWriter(hub)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { for _ in 0..<250 { writer.write() } } }
            for subscription in subscriptions {
                group.addTask {
                    for number in 1...1000 as ClosedRange<UInt64> {
                        guard case .changes(let changes)? = await subscription.next() else { return }
                        #expect(changes.map(\.revision) == [number])
                    }
                }
            }
        }
    }
}

/// Writes increasing numbers under a lock.
private final class SerialWriter: Sendable {
    private let hub: ChangeHub
    private let last = Mutex<UInt64>(0)

    init(_ hub: ChangeHub) { self.hub = hub }

    func write() {
        last.withLock { last in
            last += 1
            let bytes = withUnsafeBytes(of: last) { Array($0) }
            hub.append(ChangeHub.Change([UInt8(ascii: "a")], bytes: bytes, revision: last))
        }
        hub.wake()
    }
}
