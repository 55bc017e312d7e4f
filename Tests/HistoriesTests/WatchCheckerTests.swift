import ForgeKVStore
import Histories
import Testing

@Suite("The checker of watches")
struct WatchCheckerTests {
    private typealias Event = WatchRecorder.Event

    private func changed(_ name: String, _ value: Int, _ revision: UInt64) -> Event {
        .changed(name: name, entry: .value(value, revision: revision), revision: revision)
    }

    /// Three writes, a batch of two names between them, and reads that show the revisions.
    private let history: [HistoryOperation] = [
        HistoryOperation(.set, from: 0, to: 1, written: ["a": 1]),
        HistoryOperation(.batch, from: 2, to: 3, written: ["a": 2, "b": 3]),
        HistoryOperation(.set, from: 4, to: 5, written: ["c": 4]),
        HistoryOperation(.read, from: 6, to: 7, observed: ["b": .value(3, revision: 12)]),
    ]

    private func violations(_ watches: [Event]...) -> [String] {
        var checker = WatchChecker(history)
        checker.check(watches)
        return checker.violations
    }

    private var whole: [Event] {
        [.resync, changed("a", 1, 11), changed("a", 2, 12), changed("b", 3, 12), changed("c", 4, 13)]
    }

    @Test("a watch that shows every change in order keeps the guarantees, also with a resync between")
    func sound() {
        #expect(violations(whole, [.resync, changed("a", 1, 11), .resync, changed("c", 4, 13)]).isEmpty)
    }

    @Test("a change that comes late, twice, never, alone or with another value is found")
    func defects() {
        let late = [.resync, whole[2], whole[3], whole[1], whole[4]]
        let twice = whole + [whole[4]]
        let missing = [.resync, whole[1], whole[4]]
        let alone = [.resync, whole[1], whole[3], whole[4]]
        let other = [.resync, changed("a", 7, 11)]
        let otherRevision = [.resync, whole[1], changed("b", 3, 14)]
        let apart = [.resync, whole[1], whole[2], whole[4], whole[3]]
        for (name, events) in [
            ("late", late), ("twice", twice), ("missing", missing), ("alone", alone), ("other", other),
            ("other revision", otherRevision), ("apart", apart),
        ] { #expect(!violations(events).isEmpty, "\(name)") }
    }

    @Test("a change that another watch has seen is missed")
    func otherWatch() {
        #expect(violations([.resync, whole[1], whole[2], whole[3]], [.resync, whole[4]]).isEmpty)
        let gap: [Event] = [.resync, changed("a", 1, 11), changed("c", 4, 13)]
        #expect(!violations(whole, gap).isEmpty)
    }

    @Test("a position that goes back is found")
    func position() {
        let removed = { (revision: UInt64) in Event.changed(name: "d", entry: .absent, revision: revision) }
        #expect(violations([.resync, removed(20), removed(21)]).isEmpty)
        #expect(!violations([.resync, removed(21), removed(20)]).isEmpty)
        #expect(!violations([.resync, removed(21), removed(21)]).isEmpty)
    }

    @Test("a revision that goes back is found, also if the position does not")
    func order() {
        let inside = Event.changed(name: "b", entry: .value(3, revision: 12), revision: 11)
        #expect(violations([.resync, inside, changed("a", 1, 11)]).contains { $0.contains("from revision 12 to 11") })
    }

    @Test("a recorder of a watch ends with the content of the store", .timeLimit(.minutes(10)))
    func recorder() async throws {
        let store = LocalAsyncKVStore(InMemoryKVStore())
        let watch = WatchRecorder()
        let task = Task { await watch.follow(store) }
        defer { task.cancel() }
        while !watch.hasBegun { await Task.yield() }
        for value in 1...20 {
            try await store.set(KVKey<Int>("k\(value % 3)"), value: value)
        }
        try await store.remove(KVKey<Int>("k1"))
        try await WatchRecorder.setMark(1, store)
        while !watch.hasSeen(mark: 1) { await Task.yield() }
        var expected: [String: HistoryObservation] = [:]
        for name in try await store.keys(prefix: "k") {
            expected[name] = try await store.versioned(KVKey<Int>(name)).map { .value($0.value, revision: $0.revision) }
        }
        #expect(watch.content == expected)
        #expect(watch.failures == 0)
    }
}
